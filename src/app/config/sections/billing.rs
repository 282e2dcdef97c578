//! `[billing]`: money.

use crate::{app::config::section::section, domain::money::Currency};

section! {
    /// What prices, charges and balances are in.
    "billing" BillingSection {
        /// The one currency of the deployment. Amounts are numbers without one, so changing it renames them.
        currency: Currency = "USD";
    }
    |_billing, _check| {}
}
