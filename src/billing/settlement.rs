//! Usage, prices and outcome → what the tenant pays and what the provider takes.
//!
//! | outcome | content reached the client | tenant pays | provider takes |
//! |---|---|---|---|
//! | completed | any | what was metered | what was metered |
//! | aborted by the client | any | what was metered | what was metered |
//! | failed | yes: the answer broke off | what was metered | what was metered |
//! | failed | no | nothing | what the upstream itself counted |
//! | rejected | any | nothing | what the upstream itself counted |
//! | interrupted | as progress says | what the last progress metered | the same |
//!
//! «Metered» never includes the text of an error. The cost price is that of the attempt that
//! answered, else of the last one.

use crate::domain::{
    event::Outcome,
    money::Nanos,
    price::Prices,
    usage::{Usage, UsageSource},
};

/// The money side of a usage event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settlement {
    /// What the tenant pays.
    pub charge: Nanos,
    /// What the provider takes.
    pub cost: Nanos,
    /// The charge is 0 only because nobody set a price for tokens that were used: an alarm, while
    /// an explicit price of 0 is fine.
    pub unpriced: bool,
}

/// Settles a request by the table of this module. `content` says whether any content reached the
/// client; `selling` are the model's prices, `cost` the route's.
#[must_use]
pub fn settle(outcome: Outcome, content: bool, usage: &Usage, selling: &Prices, cost: &Prices) -> Settlement {
    let billable = match outcome {
        Outcome::Completed | Outcome::Aborted | Outcome::Interrupted => true,
        Outcome::Failed => content,
        Outcome::Rejected => false,
    };
    if billable {
        return Settlement {
            charge: selling.charge(usage),
            cost: cost.charge(usage),
            unpriced: is_unpriced(selling, usage),
        };
    }
    let counted_upstream = matches!(usage.source, UsageSource::Upstream | UsageSource::Partial);
    let cost = if counted_upstream { cost.charge(usage) } else { Nanos::ZERO };
    Settlement { charge: Nanos::ZERO, cost, unpriced: false }
}

/// Whether the charge is 0 for want of a price: it would not be, had the absent prices any value.
fn is_unpriced(selling: &Prices, usage: &Usage) -> bool {
    let something = Some(Nanos::new(Nanos::PER_UNIT));
    let filled =
        Prices { input: selling.input.or(something), output: selling.output.or(something), ..*selling };
    selling.charge(usage) == Nanos::ZERO && filled.charge(usage) != Nanos::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    const SELLING: Prices = Prices { input: Some(Nanos::new(3_000_000_000)), ..NO_PRICES };
    const COST: Prices = Prices { input: Some(Nanos::new(1_000_000_000)), ..NO_PRICES };
    const NO_PRICES: Prices = Prices {
        input: None,
        cache_read: None,
        cache_write_5m: None,
        cache_write_1h: None,
        output: None,
        reasoning: None,
        audio_input: None,
        audio_output: None,
        image: None,
        request: None,
    };

    fn usage(source: UsageSource) -> Usage {
        Usage { input_tokens: 1_000, source, ..Usage::default() }
    }

    #[test]
    fn every_row_of_the_table_holds() {
        let paid = (3_000_000, 1_000_000);
        for (outcome, content, source, expected) in [
            (Outcome::Completed, true, UsageSource::Upstream, paid),
            (Outcome::Completed, false, UsageSource::Upstream, paid),
            (Outcome::Aborted, true, UsageSource::Estimated, paid),
            (Outcome::Aborted, false, UsageSource::Estimated, paid),
            (Outcome::Failed, true, UsageSource::Estimated, paid),
            (Outcome::Failed, false, UsageSource::Estimated, (0, 0)),
            (Outcome::Failed, false, UsageSource::Upstream, (0, 1_000_000)),
            (Outcome::Rejected, false, UsageSource::Estimated, (0, 0)),
            (Outcome::Rejected, false, UsageSource::Partial, (0, 1_000_000)),
            (Outcome::Interrupted, true, UsageSource::Estimated, paid),
        ] {
            let settled = settle(outcome, content, &usage(source), &SELLING, &COST);
            let row = format!("{outcome:?}, content: {content}, {source:?}");
            assert_eq!((settled.charge.get(), settled.cost.get()), expected, "{row}");
            assert!(!settled.unpriced, "{row}");
        }
    }

    #[test]
    fn an_absent_price_is_an_alarm_and_an_explicit_zero_is_not() {
        let unpriced = |selling: Prices, usage: Usage| {
            settle(Outcome::Completed, true, &usage, &selling, &COST).unpriced
        };
        let used = usage(UsageSource::Upstream);
        assert!(unpriced(NO_PRICES, used));
        assert!(unpriced(Prices { output: Some(Nanos::ZERO), ..NO_PRICES }, used));
        assert!(!unpriced(Prices { input: Some(Nanos::ZERO), ..NO_PRICES }, used));
        assert!(!unpriced(NO_PRICES, Usage::default()));
    }
}
