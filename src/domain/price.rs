//! Prices and the one formula that turns usage into money.

use serde::{Deserialize, Serialize};

use crate::domain::{money::Nanos, usage::Usage};

/// Prices of one model or route, in nano-units per million tokens (images and requests: per
/// piece). An absent class costs as its nearest relative, see [`Prices::charge`]; an explicit
/// zero is free.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Prices {
    /// Plain input.
    pub input: Option<Nanos>,
    /// Input read from a cache; absent: as input.
    pub cache_read: Option<Nanos>,
    /// Input written to a five-minute cache; absent: as input.
    pub cache_write_5m: Option<Nanos>,
    /// Input written to a one-hour cache; absent: as the five-minute write.
    pub cache_write_1h: Option<Nanos>,
    /// Output.
    pub output: Option<Nanos>,
    /// Reasoning output; absent: as output.
    pub reasoning: Option<Nanos>,
    /// Audio input; absent: as input.
    pub audio_input: Option<Nanos>,
    /// Audio output; absent: as output.
    pub audio_output: Option<Nanos>,
    /// Per image made, nano-units; absent: free.
    pub image: Option<Nanos>,
    /// Per request that an upstream answers, nano-units; absent: free.
    pub request: Option<Nanos>,
}

impl Prices {
    /// Every class by its name in files and REST.
    #[must_use]
    pub const fn classes(&self) -> [(&'static str, Option<Nanos>); 10] {
        [
            ("input", self.input),
            ("cache_read", self.cache_read),
            ("cache_write_5m", self.cache_write_5m),
            ("cache_write_1h", self.cache_write_1h),
            ("output", self.output),
            ("reasoning", self.reasoning),
            ("audio_input", self.audio_input),
            ("audio_output", self.audio_output),
            ("image", self.image),
            ("request", self.request),
        ]
    }

    /// Whether somebody decided on a price at all; without one a charge of zero is an alarm.
    #[must_use]
    pub const fn is_set(&self) -> bool {
        self.input.is_some() || self.output.is_some() || self.image.is_some() || self.request.is_some()
    }

    /// What `usage` costs: every class times its price, summed exactly, rounded once, half up.
    #[must_use]
    pub fn charge(&self, usage: &Usage) -> Nanos {
        const MILLION: i128 = 1_000_000;
        let or = |own: Option<Nanos>, other: Option<Nanos>| own.or(other);
        let write_5m = or(self.cache_write_5m, self.input);
        let plain_output = usage.output_tokens.saturating_sub(usage.reasoning_tokens);
        let reasoning = usage.reasoning_tokens.min(usage.output_tokens);
        let per_million = [
            (usage.input_tokens, self.input),
            (usage.cache_read_tokens, or(self.cache_read, self.input)),
            (usage.cache_write_5m_tokens, write_5m),
            (usage.cache_write_1h_tokens, or(self.cache_write_1h, write_5m)),
            (plain_output, self.output),
            (reasoning, or(self.reasoning, self.output)),
            (usage.audio_input_tokens, or(self.audio_input, self.input)),
            (usage.audio_output_tokens, or(self.audio_output, self.output)),
        ];
        let per_piece = [(usage.images, self.image), (usage.requests, self.request)];
        let sum = |classes: &[(u64, Option<Nanos>)]| -> i128 {
            classes
                .iter()
                .map(|&(count, price)| i128::from(count) * i128::from(price.unwrap_or_default().get()))
                .sum()
        };
        let micro = sum(&per_million) + sum(&per_piece) * MILLION;
        let rounded = (micro + MILLION / 2).div_euclid(MILLION);
        Nanos::new(i64::try_from(rounded).unwrap_or(i64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn prices() -> Prices {
        Prices {
            input: Some(Nanos::new(2_500_000_000)),
            cache_read: Some(Nanos::new(250_000_000)),
            output: Some(Nanos::new(10_000_000_000)),
            ..Prices::default()
        }
    }

    #[test]
    fn classes_are_priced_apart_and_rounded_once_half_up() {
        let usage =
            Usage { input_tokens: 56, cache_read_tokens: 1_024, output_tokens: 7, ..Usage::default() };
        assert_eq!(prices().charge(&usage), Nanos::new(140_000 + 256_000 + 70_000));
        let half = Prices { input: Some(Nanos::new(500_000)), ..Prices::default() };
        assert_eq!(half.charge(&Usage { input_tokens: 1, ..Usage::default() }), Nanos::new(1));
    }

    #[test]
    fn an_absent_class_costs_as_its_relative() {
        let usage = Usage { cache_write_1h_tokens: 1_000_000, ..Usage::default() };
        assert_eq!(prices().charge(&usage), Nanos::new(2_500_000_000));
    }

    proptest! {
        #[test]
        fn more_tokens_never_cost_less(a in 0u64..1_000_000_000, b in 0u64..1_000_000_000, more in 0u64..1_000_000) {
            let usage = |input, output| Usage { input_tokens: input, output_tokens: output, ..Usage::default() };
            prop_assert!(prices().charge(&usage(a + more, b)) >= prices().charge(&usage(a, b)));
            prop_assert!(prices().charge(&usage(a, b + more)) >= prices().charge(&usage(a, b)));
        }
    }
}
