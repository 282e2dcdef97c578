//! Tokens from byte lengths, where no upstream has counted (yet).
//!
//! No text is kept and no tokenizer runs: a model's bytes per token are learned from the usage
//! that upstreams report, as a moving average that an eighth of each new observation goes into.

use parking_lot::RwLock;

use crate::domain::ids::{IdMap, ModelId};

/// Bytes per token of a model nobody has used yet: English text on current vocabularies.
const DEFAULT_RATIO: f32 = 4.0;
/// A token of text is hardly longer or shorter; beyond this the count was about something else
/// (images, audio, a cache), not about these bytes.
const PLAUSIBLE: std::ops::RangeInclusive<f32> = 0.5..=16.0;
/// The share of a new observation.
const WEIGHT: f32 = 1.0 / 8.0;
/// Answers shorter than this teach more about framing than about text.
const MIN_TOKENS: u64 = 16;
/// Models remembered; further ones go by the default. More than any catalog has public names.
const MAX_MODELS: usize = 4_096;

/// Which way the text goes: prompts hold more code and repetition than answers do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// To the model.
    Input,
    /// From the model.
    Output,
}

/// Bytes per token of one model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BytesPerToken {
    input: f32,
    output: f32,
}

impl Default for BytesPerToken {
    fn default() -> Self {
        Self { input: DEFAULT_RATIO, output: DEFAULT_RATIO }
    }
}

impl BytesPerToken {
    /// Tokens of so many bytes of text, rounded up: a byte is never free.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an estimate; the quotient is positive and far below 2⁵³"
    )]
    pub fn tokens(self, direction: Direction, bytes: u64) -> u64 {
        (bytes as f64 / f64::from(self.ratio(direction))).ceil() as u64
    }

    /// With what an upstream has counted for so many bytes of text. Implausible figures teach
    /// nothing.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "an average of ratios needs no exact numbers")]
    pub fn learned(self, direction: Direction, bytes: u64, tokens: u64) -> Self {
        let observed = bytes as f32 / tokens as f32;
        if tokens < MIN_TOKENS || !PLAUSIBLE.contains(&observed) {
            return self;
        }
        let average = |known: f32| known + (observed - known) * WEIGHT;
        match direction {
            Direction::Input => Self { input: average(self.input), ..self },
            Direction::Output => Self { output: average(self.output), ..self },
        }
    }

    const fn ratio(self, direction: Direction) -> f32 {
        match direction {
            Direction::Input => self.input,
            Direction::Output => self.output,
        }
    }
}

/// What was learned about every model, shared by all threads.
#[derive(Debug, Default)]
pub struct Calibration(RwLock<IdMap<ModelId, BytesPerToken>>);

impl Calibration {
    /// The ratio of a model; take it once per request.
    #[must_use]
    pub fn of(&self, model: ModelId) -> BytesPerToken {
        self.0.read().get(&model).copied().unwrap_or_default()
    }

    /// Learns from what an upstream has counted for so many bytes of text.
    pub fn learn(&self, model: ModelId, direction: Direction, bytes: u64, tokens: u64) {
        let known = self.of(model);
        let learned = known.learned(direction, bytes, tokens);
        if learned == known {
            return;
        }
        let mut models = self.0.write();
        if models.len() < MAX_MODELS || models.contains_key(&model) {
            models.insert(model, learned);
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::domain::clock::Timestamp;

    fn model(n: u8) -> ModelId {
        ModelId::generate(Timestamp::from_unix_ms(1), [n; 10])
    }

    #[test]
    fn an_unknown_model_takes_four_bytes_a_token_rounded_up() {
        let ratio = Calibration::default().of(model(1));
        assert_eq!(ratio.tokens(Direction::Input, 0), 0);
        assert_eq!(ratio.tokens(Direction::Input, 1), 1);
        assert_eq!(ratio.tokens(Direction::Output, 400), 100);
    }

    #[test]
    fn a_model_converges_to_what_its_upstream_counts_each_way_apart() {
        let calibration = Calibration::default();
        for _ in 0..60 {
            calibration.learn(model(1), Direction::Output, 1_000, 500);
        }
        assert_eq!(calibration.of(model(1)).tokens(Direction::Output, 1_000), 500);
        assert_eq!(calibration.of(model(1)).tokens(Direction::Input, 1_000), 250);
        assert_eq!(calibration.of(model(2)).tokens(Direction::Output, 1_000), 250);
    }

    #[test]
    fn counts_that_are_not_about_the_bytes_teach_nothing() {
        let start = BytesPerToken::default();
        for (bytes, tokens) in [(10, 0), (10, 15), (10, 1_000), (1_000_000, 20), (0, 50)] {
            assert_eq!(start.learned(Direction::Input, bytes, tokens), start, "{bytes}, {tokens}");
        }
    }

    #[test]
    fn memory_is_bounded() {
        let calibration = Calibration::default();
        for n in 0..=u16::MAX {
            let mut random = [0; 10];
            random[..2].copy_from_slice(&n.to_le_bytes());
            let id = ModelId::generate(Timestamp::from_unix_ms(1), random);
            calibration.learn(id, Direction::Input, 1_000, 500);
        }
        assert_eq!(calibration.0.read().len(), MAX_MODELS);
    }

    proptest! {
        #[test]
        fn an_estimate_stays_within_the_plausible_whatever_was_learned(
            seen in prop::collection::vec((any::<u64>(), any::<u64>()), 0..50),
            bytes in 0u64..1_000_000_000,
        ) {
            let ratio = seen.iter().fold(BytesPerToken::default(), |ratio, &(bytes, tokens)| {
                ratio.learned(Direction::Output, bytes, tokens)
            });
            let tokens = ratio.tokens(Direction::Output, bytes);
            prop_assert!(tokens <= bytes * 2 + 1 && tokens >= bytes / 17);
        }
    }
}
