//! Errors: ours in OpenAI's shape, the upstream's in whatever shape it came.

use bytes::Bytes;

/// What an upstream said about a failure. For classification and, redacted by the caller, for the
/// client; empty where the upstream said nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UpstreamErrorText {
    /// The message, at most 4 KiB of it.
    pub message: String,
    /// The vendor's code, numbers as text.
    pub code: Option<String>,
    /// The vendor's type or status name.
    pub kind: Option<String>,
    /// The parameter the vendor blames.
    pub param: Option<String>,
}

/// An error body: `{"error":{"message","type","param","code"}}`.
#[must_use]
pub fn encode_error(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Bytes {
    let _ = (message, kind, param, code);
    Bytes::new()
}

/// The same as an event of a stream: `data: {"error":{…}}` and a blank line.
#[must_use]
pub fn encode_error_event(message: &str, kind: &str, param: Option<&str>, code: Option<&str>) -> Bytes {
    encode_error(message, kind, param, code)
}

/// Reads an error body of any dialect; never fails, text that is no JSON becomes the message.
#[must_use]
pub fn decode_error(body: &[u8]) -> UpstreamErrorText {
    let _ = body;
    UpstreamErrorText::default()
}
