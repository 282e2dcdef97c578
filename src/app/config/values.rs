//! How the text of a setting becomes a value. One parser serves the file, the environment and the
//! flags: each source gives text or a list of texts.

use std::{
    net::{IpAddr, SocketAddr},
    path::PathBuf,
    time::Duration,
};

use ipnet::IpNet;
use url::Url;

use crate::domain::{money::Currency, secret::Secret};

/// A setting's value before it is typed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Raw {
    /// A variable, a flag, or a scalar of the file.
    Text(String),
    /// An array of the file.
    List(Vec<String>),
}

impl Raw {
    /// One line of text, as `config show` prints it.
    #[must_use]
    pub fn joined(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::List(items) => items.join(", "),
        }
    }
}

/// A type that a setting may have.
pub trait FromSetting: Sized {
    /// What the reference page calls it, unit included.
    const KIND: &'static str;

    /// Reads one text.
    ///
    /// # Errors
    /// With what was expected, never repeating a secret.
    fn parse(text: &str) -> Result<Self, String>;

    /// Reads a text or a list; only list types take a list.
    ///
    /// # Errors
    /// As [`FromSetting::parse`].
    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(text) => Self::parse(text),
            Raw::List(_) => Err(format!("expected {}, not a list", Self::KIND)),
        }
    }

    /// What may be shown of a text of this type.
    #[must_use]
    fn mask(text: &str) -> String {
        text.to_owned()
    }
}

macro_rules! parsed {
    ($($ty:ty: $kind:literal;)*) => {$(
        impl FromSetting for $ty {
            const KIND: &'static str = $kind;

            fn parse(text: &str) -> Result<Self, String> {
                text.trim().parse().map_err(|_| concat!("expected ", $kind).to_owned())
            }
        }
    )*};
}

parsed! {
    bool: "true or false";
    u32: "a whole number";
    u64: "a whole number";
    usize: "a whole number";
    f64: "a number";
    SocketAddr: "an address and port such as 127.0.0.1:8080";
    Currency: "an ISO 4217 code such as USD";
}

impl FromSetting for String {
    const KIND: &'static str = "text";

    fn parse(text: &str) -> Result<Self, String> {
        Ok(text.to_owned())
    }
}

impl FromSetting for PathBuf {
    const KIND: &'static str = "a path";

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Err("expected a path".to_owned()) } else { Ok(text.into()) }
    }
}

impl FromSetting for Url {
    const KIND: &'static str = "a URL";

    fn parse(text: &str) -> Result<Self, String> {
        Self::parse(text.trim()).map_err(|e| format!("expected a URL: {e}"))
    }
}

impl FromSetting for IpNet {
    const KIND: &'static str = "an address or network such as 10.0.0.0/8";

    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let address = || text.parse::<IpAddr>().map(Self::from);
        text.parse().or_else(|_| address()).map_err(|_| format!("expected {}", <Self as FromSetting>::KIND))
    }
}

impl FromSetting for Duration {
    const KIND: &'static str = "a duration such as 500ms, 30s or 2h";

    fn parse(text: &str) -> Result<Self, String> {
        humantime::parse_duration(text.trim()).map_err(|_| format!("expected {}", Self::KIND))
    }
}

impl FromSetting for Secret {
    const KIND: &'static str = "a secret";

    fn parse(text: &str) -> Result<Self, String> {
        Ok(Self::new(text.to_owned()))
    }

    fn mask(text: &str) -> String {
        if text.is_empty() { String::new() } else { "(set, not shown)".to_owned() }
    }
}

/// A number of bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

impl ByteSize {
    /// As a length in memory; what does not fit is the largest length.
    #[must_use]
    pub fn as_usize(self) -> usize {
        usize::try_from(self.0).unwrap_or(usize::MAX)
    }
}

/// Units of a size, longest first so that `KiB` is not read as `B`.
const UNITS: &[(&str, u64)] =
    &[("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30), ("TiB", 1 << 40), ("B", 1), ("", 1)];

impl FromSetting for ByteSize {
    const KIND: &'static str = "a size such as 32MiB (B, KiB, MiB, GiB, TiB)";

    fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (digits, unit) = text.split_at(split);
        let size = UNITS
            .iter()
            .find(|(name, _)| *name == unit.trim_start())
            .and_then(|(_, factor)| digits.parse::<u64>().ok()?.checked_mul(*factor));
        size.map(Self).ok_or_else(|| format!("expected {}", Self::KIND))
    }
}

/// A URL with a password in it, which is not shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectionUrl {
    /// Its scheme, which tells the kind of server.
    pub scheme: String,
    /// The whole.
    pub secret: Secret,
}

impl FromSetting for ConnectionUrl {
    const KIND: &'static str = "a connection URL such as postgres://user:password@host/name";

    fn parse(text: &str) -> Result<Self, String> {
        // The parser's own message is not repeated: it may quote the password.
        let url = Url::parse(text.trim()).map_err(|_| format!("expected {}", Self::KIND))?;
        Ok(Self { scheme: url.scheme().to_owned(), secret: Secret::new(text.trim().to_owned()) })
    }

    fn mask(text: &str) -> String {
        let shown = |part: &str| {
            // Without a host it may be the part of a password behind a comma.
            let Some(mut url) = Url::parse(part.trim()).ok().filter(Url::has_host) else {
                return "(not a URL, not shown)".to_owned();
            };
            // Both fail only for URLs without a host, which hold no password either.
            let _ = url.password().is_some().then(|| url.set_password(Some("***")));
            if url.query().is_some() {
                url.set_query(Some("***"));
            }
            url.to_string()
        };
        text.split(',').filter(|part| !part.trim().is_empty()).map(shown).collect::<Vec<_>>().join(", ")
    }
}

/// Empty means none.
impl<T: FromSetting> FromSetting for Option<T> {
    const KIND: &'static str = T::KIND;

    fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() { Ok(None) } else { T::parse(text).map(Some) }
    }

    fn mask(text: &str) -> String {
        T::mask(text)
    }
}

/// Separated by commas outside the file; empty means none.
impl<T: FromSetting> FromSetting for Vec<T> {
    const KIND: &'static str = T::KIND;

    fn parse(text: &str) -> Result<Self, String> {
        text.split(',').map(str::trim).filter(|item| !item.is_empty()).map(T::parse).collect()
    }

    fn from_raw(raw: &Raw) -> Result<Self, String> {
        match raw {
            Raw::Text(text) => Self::parse(text),
            Raw::List(items) => items.iter().map(|item| T::parse(item)).collect(),
        }
    }

    fn mask(text: &str) -> String {
        T::mask(text)
    }
}

/// Declares an enum that is a setting, its texts beside its variants.
macro_rules! choice {
    ($(#[$doc:meta])* $name:ident = $kind:literal { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl $crate::app::config::FromSetting for $name {
            const KIND: &'static str = $kind;

            fn parse(text: &str) -> Result<Self, String> {
                match text.trim() {
                    $($text => Ok(Self::$variant),)*
                    _ => Err(concat!("expected ", $kind).to_owned()),
                }
            }
        }
    };
}
pub(crate) use choice;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [("0", 0), ("512", 512), ("32MiB", 32 << 20), ("1 GiB", 1 << 30), ("7B", 7)] {
            assert_eq!(ByteSize::parse(text), Ok(ByteSize(bytes)), "{text}");
        }
        for bad in ["", "MiB", "1MB", "-1", "99999999999TiB", "1.5MiB"] {
            assert!(ByteSize::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_password_is_never_shown() {
        for (text, shown) in [
            ("postgres://u:p4ss@h:5/db", "postgres://u:***@h:5/db"),
            ("postgres://h/db?password=p4ss", "postgres://h/db?***"),
            ("redis://:p4ss@a,redis://:p4ss@b", "redis://:***@a, redis://:***@b"),
            ("p4ss", "(not a URL, not shown)"),
        ] {
            assert_eq!(<Option<ConnectionUrl>>::mask(text), shown);
        }
        assert!(!ConnectionUrl::parse("::p4ss").unwrap_err().contains("p4ss"));
    }

    #[test]
    fn lists_are_arrays_or_separated_by_commas() {
        let parsed = <Vec<IpNet>>::parse("10.0.0.0/8, 127.0.0.1").unwrap();
        let listed = Raw::List(vec!["10.0.0.0/8".into(), "127.0.0.1".into()]);
        assert_eq!(<Vec<IpNet>>::from_raw(&listed), Ok(parsed));
        assert_eq!(<Vec<IpNet>>::parse(""), Ok(vec![]));
        assert!(u32::from_raw(&Raw::List(vec![])).is_err());
    }
}
