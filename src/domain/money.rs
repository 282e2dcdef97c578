//! Money as integers: nano-units of the deployment's one currency (1 USD = 1 000 000 000).

use std::{fmt, iter::Sum, str::FromStr};

use serde::{Deserialize, Serialize};

/// An amount in nano-units of the deployment's currency; negative for what a tenant owes.
///
/// `i64` holds ±9.2 billion units. Arithmetic saturates: a book can be wrong by a sum that no
/// deployment will see, but it cannot wrap from debt to credit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Nanos(i64);

impl Nanos {
    /// Nothing.
    pub const ZERO: Self = Self(0);
    /// Nano-units in one unit of the currency.
    pub const PER_UNIT: i64 = 1_000_000_000;

    /// From nano-units.
    #[must_use]
    pub const fn new(nanos: i64) -> Self {
        Self(nanos)
    }

    /// The amount in nano-units.
    #[must_use]
    pub const fn get(self) -> i64 {
        self.0
    }

    /// The sum, saturating.
    #[must_use]
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// The difference, saturating.
    #[must_use]
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// The opposite amount.
    #[must_use]
    pub const fn negated(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::ZERO, Self::plus)
    }
}

/// Prints units with as many decimals as needed, at least two: `0.000123`, `12.50`.
impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let whole = self.0.unsigned_abs() / Self::PER_UNIT.unsigned_abs();
        let fraction = format!("{:09}", self.0.unsigned_abs() % Self::PER_UNIT.unsigned_abs());
        let kept = fraction.trim_end_matches('0').len().max(2);
        write!(f, "{sign}{whole}.{}", &fraction[..kept])
    }
}

impl fmt::Debug for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not an amount of money.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected a decimal amount with at most nine decimals, such as 2.50")]
pub struct InvalidAmount;

/// Reads `2.5`, `-0.000000001`, `3`: exact, no floating point.
impl FromStr for Nanos {
    type Err = InvalidAmount;

    fn from_str(text: &str) -> Result<Self, InvalidAmount> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || fraction.len() > 9 || !all_digits(whole) || !all_digits(fraction) {
            return Err(InvalidAmount);
        }
        let whole: i64 = whole.parse().map_err(|_| InvalidAmount)?;
        let fraction: i64 = format!("{fraction:0<9}").parse().map_err(|_| InvalidAmount)?;
        let nanos =
            whole.checked_mul(Self::PER_UNIT).and_then(|n| n.checked_add(fraction)).ok_or(InvalidAmount)?;
        Ok(Self(if negative { -nanos } else { nanos }))
    }
}

/// The deployment's currency: the three letters of ISO 4217.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Currency([u8; 3]);

/// Why a text is not a currency.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("expected three capital letters, such as USD")]
pub struct InvalidCurrency;

impl FromStr for Currency {
    type Err = InvalidCurrency;

    fn from_str(text: &str) -> Result<Self, InvalidCurrency> {
        let letters: [u8; 3] = text.as_bytes().try_into().map_err(|_| InvalidCurrency)?;
        if letters.iter().all(u8::is_ascii_uppercase) { Ok(Self(letters)) } else { Err(InvalidCurrency) }
    }
}

impl fmt::Display for Currency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|letter| fmt::Write::write_char(f, char::from(*letter)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn amounts_print_and_read_back_exactly() {
        for (nanos, text) in [(0, "0.00"), (1, "0.000000001"), (-12_500_000_000, "-12.50")] {
            assert_eq!(Nanos::new(nanos).to_string(), text);
            assert_eq!(text.parse(), Ok(Nanos::new(nanos)));
        }
        for bad in ["", "1.", ".5", "1e3", "0.1234567890", "99999999999"] {
            assert_eq!(bad.parse::<Nanos>().is_ok(), bad == "1.", "{bad}");
        }
    }

    #[test]
    fn a_currency_is_three_capital_letters() {
        assert_eq!("EUR".parse::<Currency>().map(|currency| currency.to_string()), Ok("EUR".to_owned()));
        for bad in ["", "eur", "EURO", "E1R", "€"] {
            assert_eq!(bad.parse::<Currency>(), Err(InvalidCurrency), "{bad}");
        }
    }
}
