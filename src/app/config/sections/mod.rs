//! Every section, a file each.

use super::section::{Reader, Section, SectionTable};

mod admission;
mod billing;
mod data;
mod database;
mod identity;
mod journal;
mod log;
mod metrics;
mod net;
mod otel;
mod redis;
mod relay;
mod server;
mod vault;

pub use admission::AdmissionSection;
pub use billing::BillingSection;
pub use data::DataSection;
pub use database::DatabaseSection;
pub use identity::IdentitySection;
pub use journal::JournalSection;
pub use log::{LogFormat, LogSection};
pub use metrics::MetricsSection;
pub use net::NetSection;
pub use otel::OtelSection;
pub use redis::{RedisMode, RedisSection};
pub use relay::RelaySection;
pub use server::ServerSection;
pub use vault::VaultSection;

macro_rules! sections {
    ($($(#[$doc:meta])* $name:ident: $section:ident,)*) => {
        /// All settings, typed.
        #[derive(Debug, Clone)]
        pub struct Settings { $($(#[$doc])* pub $name: $section,)* }

        /// Every section's table, in the order of the reference page.
        pub const SECTIONS: &[SectionTable] = &[$(<$section as Section>::TABLE,)*];

        impl Settings {
            /// Reads every section; none when one cannot be read.
            pub(super) fn read(reader: &mut Reader<'_>) -> Option<Self> {
                // Every section is read before any is missed, so that all problems show at once.
                $(let $name = reader.section::<$section>();)*
                Some(Self { $($name: $name?,)* })
            }
        }
    };
}

sections! {
    /// The HTTP server.
    server: ServerSection,
    /// Where files are kept.
    data: DataSection,
    /// Durable facts.
    database: DatabaseSection,
    /// Shared counters.
    redis: RedisSection,
    /// The master key.
    vault: VaultSection,
    /// Access tokens.
    identity: IdentitySection,
    /// Calls going out.
    net: NetSection,
    /// The request path.
    relay: RelaySection,
    /// What is not yet in the store.
    journal: JournalSection,
    /// Money.
    billing: BillingSection,
    /// Limits while shared counters are away.
    admission: AdmissionSection,
    /// Log lines.
    log: LogSection,
    /// The scrape.
    metrics: MetricsSection,
    /// Traces.
    otel: OtelSection,
}
