//! Usage in disjoint classes, from the shapes that OpenAI and its dialects send.

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
