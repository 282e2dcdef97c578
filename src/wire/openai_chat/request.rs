//! Requests: what must be known before sending, read in one pass with no tree.

use bytes::Bytes;

use crate::wire::json::Span;

/// Longest model name taken, characters.
pub const MAX_MODEL_CHARS: usize = 256;

/// Why a request body was refused. Every text is for the client and holds nothing of the body.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct RequestError {
    /// Path of the parameter to blame, such as `stream_options.include_usage`; none when the body as a
    /// whole is wrong.
    pub field: Option<String>,
    /// What is wrong, a plain sentence.
    pub reason: String,
    /// Byte offset in the body where it was seen, for syntax errors.
    pub offset: Option<usize>,
}

/// What a request asks of a model.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub struct Needs {
    /// Tools or functions are offered.
    pub tools: bool,
    /// The input holds an image.
    pub images: bool,
    /// The input holds audio, or the answer shall.
    pub audio: bool,
    /// The input holds a video.
    pub video: bool,
    /// The input holds a file, such as a PDF.
    pub files: bool,
    /// The answer shall follow a JSON schema.
    pub json_schema: bool,
    /// A reasoning effort is set.
    pub reasoning: bool,
    /// Web search by the provider is asked for.
    pub search: bool,
}

/// What is known of a request without a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Head {
    /// The model asked for, unescaped.
    pub model: String,
    /// The answer shall be streamed.
    pub stream: bool,
    /// The client asked for usage in the stream (`stream_options.include_usage`).
    pub include_usage: bool,
    /// Most output tokens wanted: `max_completion_tokens`, else `max_tokens`.
    pub max_output_tokens: Option<u64>,
    /// Answers wanted; 1 when not said.
    pub n: u32,
    /// What the request asks of a model.
    pub needs: Needs,
    /// Bytes of text that go in, for the estimate of input tokens: messages, tools and schema, inline
    /// media left out.
    pub input_bytes: u64,
    /// The value of `model`, quotes included.
    model_span: Span,
}

impl Head {
    /// Reads the head of a body.
    ///
    /// # Errors
    /// The body is not one JSON object, or a member that Tollway acts on is missing, doubled or of the
    /// wrong kind. Everything else passes unseen.
    pub fn read(body: &[u8]) -> Result<Self, RequestError> {
        let _ = body;
        Ok(Self {
            model: String::new(),
            stream: false,
            include_usage: false,
            max_output_tokens: None,
            n: 1,
            needs: Needs::default(),
            input_bytes: 0,
            model_span: Span::default(),
        })
    }
}

/// The body to send upstream: the model's name there in place of the public one and, when `ask_usage`
/// holds and the client streams without asking for usage, `stream_options.include_usage` set. All other
/// bytes stay; when nothing changes the same buffer is returned. `head` must have been read from `body`.
#[must_use]
pub fn prepare(body: &Bytes, head: &Head, upstream_model: &str, ask_usage: bool) -> Bytes {
    let _ = (head.model_span, upstream_model, ask_usage);
    body.clone()
}
