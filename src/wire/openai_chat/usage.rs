//! Usage in disjoint classes, from the shapes that OpenAI and its dialects send.

use crate::wire::json::{Kind, ScanError, Scanner};

/// What an answer consumed; each token stands in exactly one class. The classes are those of the
/// billing side; `has_input` and `has_output` tell a full count from a partial one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ChatUsage {
    /// Input tokens neither read from nor written to a cache, audio not.
    pub input_tokens: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read_tokens: u64,
    /// Input tokens written to a cache that lives five minutes; what a dialect does not tell apart is here.
    pub cache_write_5m_tokens: u64,
    /// Input tokens written to a cache that lives one hour.
    pub cache_write_1h_tokens: u64,
    /// Output tokens, reasoning included, audio not.
    pub output_tokens: u64,
    /// The part of `output_tokens` that was reasoning.
    pub reasoning_tokens: u64,
    /// Audio tokens in the input.
    pub audio_input_tokens: u64,
    /// Audio tokens in the output.
    pub audio_output_tokens: u64,
    /// The upstream gave an input count.
    pub has_input: bool,
    /// The upstream gave an output count.
    pub has_output: bool,
}

/// The fields as they came, the last value of each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct UsageFields {
    prompt: Option<u64>,
    completion: Option<u64>,
    total: Option<u64>,
    cached: Option<u64>,
    cache_hit: Option<u64>,
    cache_write: Option<u64>,
    reasoning: Option<u64>,
    audio_in: Option<u64>,
    audio_out: Option<u64>,
}

impl UsageFields {
    /// Takes a value that stands where usage does; anything but an object says nothing.
    pub(super) fn read(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ScanError> {
        read_members(scanner, |scanner, name| match name {
            "prompt_tokens" => read_count(scanner, &mut self.prompt),
            "completion_tokens" => read_count(scanner, &mut self.completion),
            "total_tokens" => read_count(scanner, &mut self.total),
            // DeepSeek; Moonshot and Together say it at this level too.
            "prompt_cache_hit_tokens" | "cached_tokens" => read_count(scanner, &mut self.cache_hit),
            "prompt_tokens_details" => read_members(scanner, |scanner, name| match name {
                "cached_tokens" => read_count(scanner, &mut self.cached),
                "cache_write_tokens" => read_count(scanner, &mut self.cache_write),
                "audio_tokens" => read_count(scanner, &mut self.audio_in),
                _ => scanner.skip().map(drop),
            }),
            "completion_tokens_details" => read_members(scanner, |scanner, name| match name {
                "reasoning_tokens" => read_count(scanner, &mut self.reasoning),
                "audio_tokens" => read_count(scanner, &mut self.audio_out),
                _ => scanner.skip().map(drop),
            }),
            _ => scanner.skip().map(drop),
        })
    }

    /// The classes, once anything that counts has come. Parts never exceed the whole they are part of:
    /// some upstreams report more cached than prompt tokens, or more reasoning than output.
    pub(super) fn classes(&self) -> Option<ChatUsage> {
        if self.prompt.is_none() && self.completion.is_none() {
            return None;
        }
        let mut input = self.prompt.unwrap_or(0);
        let mut part_of_input = |part: Option<u64>| {
            let part = part.unwrap_or(0).min(input);
            input -= part;
            part
        };
        let cache_read_tokens = part_of_input(self.cached.or(self.cache_hit));
        let cache_write_5m_tokens = part_of_input(self.cache_write);
        let audio_input_tokens = part_of_input(self.audio_in);

        let said = self.completion.unwrap_or(0);
        let audio_output_tokens = self.audio_out.unwrap_or(0).min(said);
        let unsaid = self.reasoning_outside_completion();
        let output_tokens = said - audio_output_tokens + unsaid;
        let reasoning_tokens = self.reasoning.unwrap_or(0).max(unsaid).min(output_tokens);
        Some(ChatUsage {
            input_tokens: input,
            cache_read_tokens,
            cache_write_5m_tokens,
            cache_write_1h_tokens: 0,
            output_tokens,
            reasoning_tokens,
            audio_input_tokens,
            audio_output_tokens,
            has_input: self.prompt.is_some(),
            has_output: self.completion.is_some(),
        })
    }

    /// Reasoning that stands in the total but not in `completion_tokens`: xAI names it, Google's endpoint
    /// leaves it to be found as the difference. A difference that caching explains is not reasoning.
    fn reasoning_outside_completion(&self) -> u64 {
        let (Some(prompt), Some(completion), Some(total)) = (self.prompt, self.completion, self.total) else {
            return 0;
        };
        let rest = total.saturating_sub(prompt.saturating_add(completion));
        match self.reasoning {
            Some(reasoning) if reasoning > 0 => {
                if rest == reasoning {
                    rest
                } else {
                    0
                }
            }
            _ => {
                let explained = [self.cached, self.cache_hit, self.cache_write].contains(&Some(rest));
                if explained { 0 } else { rest }
            }
        }
    }
}

fn read_members<'a>(
    scanner: &mut Scanner<'a>,
    mut on_member: impl FnMut(&mut Scanner<'a>, &str) -> Result<(), ScanError>,
) -> Result<(), ScanError> {
    if scanner.kind()? != Kind::Object {
        return scanner.skip().map(drop);
    }
    scanner.object(|scanner, member| on_member(scanner, &member.key.decode())).map(drop)
}

/// No request takes so many tokens, nor a thousandth of it: a count above is noise, and would be a fortune.
const MOST_TOKENS: u64 = 1_000_000_000;

/// Takes a count; null and what is no count, or none that can be true, leave the last value.
fn read_count(scanner: &mut Scanner<'_>, last: &mut Option<u64>) -> Result<(), ScanError> {
    let span = scanner.skip()?;
    let text = scanner.slice(span);
    // Gateways that went through a float write `12.0`.
    let text = text.strip_suffix(".0").unwrap_or(text);
    if let Some(count) = text.parse().ok().filter(|count| *count <= MOST_TOKENS) {
        *last = Some(count);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classes(usages: &[&str]) -> Option<ChatUsage> {
        let mut fields = UsageFields::default();
        for usage in usages {
            fields.read(&mut Scanner::new(usage.as_bytes()).unwrap()).unwrap();
        }
        fields.classes()
    }

    #[test]
    fn a_count_that_cannot_be_true_is_none() {
        for count in ["1000000001", "9200000000000000", "9223372036854775807", "18446744073709551616"] {
            let usage = format!(r#"{{"prompt_tokens": {count}, "completion_tokens": 7}}"#);
            let counted = classes(&[r#"{"prompt_tokens": 5, "completion_tokens": 6}"#, &usage]).unwrap();
            assert_eq!((counted.input_tokens, counted.output_tokens), (5, 7), "{count}");
        }
        assert!(
            classes(&[r#"{"prompt_tokens": 9200000000000000, "completion_tokens": 9200000000000000}"#])
                .is_none()
        );
    }

    fn counts(usage: &str) -> [u64; 7] {
        let u = classes(&[usage]).unwrap();
        [
            u.input_tokens,
            u.cache_read_tokens,
            u.cache_write_5m_tokens,
            u.output_tokens,
            u.reasoning_tokens,
            u.audio_input_tokens,
            u.audio_output_tokens,
        ]
    }

    #[test]
    fn each_token_stands_in_one_class_in_every_dialect() {
        for (dialect, usage, expected) in [
            (
                "plain",
                r#"{"prompt_tokens":9,"completion_tokens":3,"total_tokens":12}"#,
                [9, 0, 0, 3, 0, 0, 0],
            ),
            (
                "cached, written, reasoning",
                r#"{"prompt_tokens":1080,"completion_tokens":50,"total_tokens":1130,
                    "prompt_tokens_details":{"cached_tokens":1024,"cache_write_tokens":40,"audio_tokens":0},
                    "completion_tokens_details":{"reasoning_tokens":20}}"#,
                [16, 1024, 40, 50, 20, 0, 0],
            ),
            (
                "audio",
                r#"{"prompt_tokens":100,"completion_tokens":80,"prompt_tokens_details":{"audio_tokens":60},
                    "completion_tokens_details":{"audio_tokens":70,"text_tokens":10}}"#,
                [40, 0, 0, 10, 0, 60, 70],
            ),
            (
                "xAI: reasoning outside completion",
                r#"{"prompt_tokens":291,"completion_tokens":26,"total_tokens":513,
                    "completion_tokens_details":{"reasoning_tokens":196}}"#,
                [291, 0, 0, 222, 196, 0, 0],
            ),
            (
                "Google: hidden reasoning",
                r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":40}"#,
                [10, 0, 0, 30, 25, 0, 0],
            ),
            (
                "a total that counts cached tokens on top",
                r#"{"prompt_tokens":10,"completion_tokens":5,"total_tokens":19,"prompt_tokens_details":{"cached_tokens":4}}"#,
                [6, 4, 0, 5, 0, 0, 0],
            ),
            (
                "more cached than prompt, more reasoning than output",
                r#"{"prompt_tokens":7,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":128},
                    "completion_tokens_details":{"reasoning_tokens":9}}"#,
                [0, 7, 0, 5, 5, 0, 0],
            ),
            (
                "DeepSeek",
                r#"{"prompt_tokens":70,"completion_tokens":5,"prompt_cache_hit_tokens":64,"prompt_cache_miss_tokens":6}"#,
                [6, 64, 0, 5, 0, 0, 0],
            ),
            (
                "null details, floats, costs",
                r#"{"prompt_tokens":7.0,"completion_tokens":5,"prompt_tokens_details":null,"cost":0.25}"#,
                [7, 0, 0, 5, 0, 0, 0],
            ),
        ] {
            assert_eq!(counts(usage), expected, "{dialect}");
        }
    }

    #[test]
    fn the_last_value_of_each_field_stands() {
        let usage = classes(&[
            r#"{"prompt_tokens":7,"completion_tokens":1}"#,
            "null",
            r#"{"completion_tokens":4,"prompt_tokens":null}"#,
        ])
        .unwrap();
        assert_eq!((usage.input_tokens, usage.output_tokens), (7, 4));
    }

    #[test]
    fn a_partial_count_says_what_is_missing() {
        let usage = classes(&[r#"{"completion_tokens":4}"#]).unwrap();
        assert!(!usage.has_input && usage.has_output);
        assert_eq!(classes(&["{}"]), None);
    }
}
