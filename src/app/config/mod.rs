//! The settings: `tollway.toml`, overridden by `TOLLWAY_*` variables, overridden by flags.
//!
//! A section is one file in `sections/`: a typed struct whose fields are declared once, with doc,
//! type and default, in a `section!` block; the same declaration drives reading, `config show` and
//! the reference page. [`load`] reads all three sources, collects every problem with its place, and
//! returns typed sections. The types here do not travel: `build` turns them into what each floor
//! takes. To add a setting, add a line to its section; to add a section, a file and its line in
//! `sections/mod.rs`.

mod load;
mod reference;
mod section;
pub mod sections;
mod show;
mod source;
mod values;

pub use load::{ConfigError, Overrides, load, load_from};
pub use reference::reference;
pub use section::{Field, Problem, SectionTable};
pub use sections::Settings;
pub use show::show;
pub use source::{Origin, Sources};
pub use values::{ByteSize, ConnectionUrl, FromSetting};
