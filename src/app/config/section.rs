//! A section of the settings: its fields as a table, and how they are read.

use super::{
    source::{Origin, Sources},
    values::{FromSetting, Raw},
};

/// A field as the table knows it.
#[derive(Debug, Clone, Copy)]
pub struct Field {
    /// Its name in the section.
    pub name: &'static str,
    /// What it sets.
    pub doc: &'static str,
    /// What kind of value it takes, unit included.
    pub kind: &'static str,
    /// The text it has when nothing sets it; empty: none.
    pub default: &'static str,
    /// A variable of this name sets it too, below `TOLLWAY_…`.
    pub alias: Option<&'static str>,
    /// What may be shown of its text.
    pub mask: fn(&str) -> String,
}

/// A section as the table knows it.
#[derive(Debug, Clone, Copy)]
pub struct SectionTable {
    /// The table's name in the file.
    pub name: &'static str,
    /// What it is about.
    pub doc: &'static str,
    /// Its fields.
    pub fields: &'static [Field],
}

impl SectionTable {
    /// The variable that sets a field.
    #[must_use]
    pub fn variable(&self, field: &Field) -> String {
        format!("TOLLWAY_{}_{}", self.name, field.name).to_ascii_uppercase()
    }
}

/// What is wrong with the settings, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// Where it was set.
    pub origin: Origin,
    /// `section.field`, or the unknown name; empty where the origin says it all.
    pub field: String,
    /// What is wrong and what would be right.
    pub reason: String,
}

/// A typed section.
pub trait Section: Sized {
    /// Its table.
    const TABLE: SectionTable;

    /// Reads every field; what cannot be read becomes a problem.
    fn read(reader: &mut Reader<'_>) -> Option<Self>;

    /// Looks at the fields together.
    fn validate(&self, check: &mut Check<'_>);
}

/// Reads typed fields from the merged sources and collects what is wrong.
#[derive(Debug)]
pub struct Reader<'a> {
    sources: &'a Sources,
    problems: &'a mut Vec<Problem>,
}

impl<'a> Reader<'a> {
    /// Reads `sources`.
    pub const fn new(sources: &'a Sources, problems: &'a mut Vec<Problem>) -> Self {
        Self { sources, problems }
    }

    /// A section, read and validated; none when one of its fields cannot be read.
    pub fn section<S: Section>(&mut self) -> Option<S> {
        let section = S::read(self)?;
        let mut check = Check { section: S::TABLE.name, sources: self.sources, problems: self.problems };
        section.validate(&mut check);
        Some(section)
    }

    /// A field; none when it cannot be read.
    pub fn field<T: FromSetting>(&mut self, section: &'static str, field: &Field) -> Option<T> {
        let (raw, origin) = match self.sources.get(section, field.name) {
            Some((raw, origin)) => (raw.clone(), origin.clone()),
            None => (Raw::Text(field.default.to_owned()), Origin::Default),
        };
        let value = T::from_raw(&raw);
        value
            .map_err(|reason| {
                self.problems.push(Problem { origin, field: format!("{section}.{}", field.name), reason });
            })
            .ok()
    }
}

/// Says what is wrong with a section whose fields can be read.
#[derive(Debug)]
pub struct Check<'a> {
    section: &'static str,
    sources: &'a Sources,
    problems: &'a mut Vec<Problem>,
}

impl Check<'_> {
    /// Unless `holds`, `field` is wrong for `reason`.
    pub fn that(&mut self, holds: bool, field: &'static str, reason: &str) {
        if holds {
            return;
        }
        self.problems.push(self.sources.problem(self.section, field, reason.to_owned()));
    }
}

/// Declares a section: struct, table and reading from one list of fields.
macro_rules! section {
    (
        $(#[doc = $sdoc:literal])+
        $name:literal $struct:ident {
            $($(#[doc = $doc:literal])+ $field:ident: $ty:ty = $default:literal $(or $alias:literal)?;)*
        }
        |$this:ident, $check:pat_param| $validate:block
    ) => {
        $(#[doc = $sdoc])+
        #[derive(Debug, Clone)]
        pub struct $struct { $($(#[doc = $doc])+ pub $field: $ty,)* }

        impl $crate::app::config::section::Section for $struct {
            const TABLE: $crate::app::config::SectionTable = $crate::app::config::SectionTable {
                name: $name,
                doc: concat!($($sdoc,)+).trim_ascii(),
                fields: &[$($crate::app::config::Field {
                    name: stringify!($field),
                    doc: concat!($($doc,)+).trim_ascii(),
                    kind: <$ty as $crate::app::config::FromSetting>::KIND,
                    default: $default,
                    alias: $crate::app::config::section::first(&[$($alias)?]),
                    mask: <$ty as $crate::app::config::FromSetting>::mask,
                },)*],
            };

            fn read(reader: &mut $crate::app::config::section::Reader<'_>) -> Option<Self> {
                let mut fields = Self::TABLE.fields.iter();
                // Every field is read before any is missed, so that all problems show at once.
                $(let $field = reader.field::<$ty>($name, fields.next()?);)*
                Some(Self { $($field: $field?,)* })
            }

            fn validate(&self, $check: &mut $crate::app::config::section::Check<'_>) {
                let $this = self;
                $validate
            }
        }
    };
}
pub(crate) use section;

/// The first of at most one alias.
pub(crate) const fn first(aliases: &[&'static str]) -> Option<&'static str> {
    match aliases {
        [] => None,
        [alias, ..] => Some(alias),
    }
}
