//! Where in an answer a value stands: the one table of which text counts as output.

/// A place in an answer, or in the delta of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Place {
    /// The answer itself.
    Root,
    /// `model`
    Model,
    /// `usage`
    Usage,
    /// `error`
    Error,
    /// `choices`
    Choices,
    /// One of them.
    Choice,
    /// `message` or `delta`
    Message,
    /// `content`, `reasoning`: text, or parts of it (Mistral)
    Content,
    /// One part.
    Part,
    /// `tool_calls`
    Calls,
    /// One of them.
    Call,
    /// `function`, `function_call` or `custom`
    Function,
    /// `audio`
    Audio,
    /// `reasoning_details` (`OpenRouter`); its text stands in `reasoning` too
    Details,
    /// A string that counts.
    Said,
    /// Anything else.
    #[default]
    Other,
}

impl Place {
    /// Where the member `key` of an object here stands.
    pub(super) fn member(self, key: &str) -> Self {
        match (self, key) {
            (Self::Root, "model") => Self::Model,
            (Self::Root, "usage") => Self::Usage,
            (Self::Root, "error") => Self::Error,
            (Self::Root, "choices") => Self::Choices,
            (Self::Choice, "message") => Self::Message,
            (Self::Message, "content" | "reasoning_content" | "reasoning") | (Self::Part, "thinking") => {
                Self::Content
            }
            (Self::Message, "tool_calls") => Self::Calls,
            (Self::Message, "function_call") | (Self::Call, "function" | "custom") => Self::Function,
            (Self::Message, "audio") => Self::Audio,
            (Self::Message, "reasoning_details") => Self::Details,
            (Self::Message, "refusal")
            | (Self::Part, "text")
            | (Self::Function, "arguments" | "input")
            | (Self::Audio, "transcript") => Self::Said,
            _ => Self::Other,
        }
    }

    /// Where an element of an array here stands.
    pub(super) const fn element(self) -> Self {
        match self {
            Self::Choices => Self::Choice,
            Self::Content => Self::Part,
            Self::Calls => Self::Call,
            _ => Self::Other,
        }
    }

    /// Whether a string here is output.
    pub(super) const fn counts(self) -> bool {
        matches!(self, Self::Content | Self::Said)
    }

    /// Whether something inside makes it content, text or not.
    pub(super) const fn is_content(self) -> bool {
        matches!(self, Self::Calls | Self::Function | Self::Audio | Self::Details)
    }
}
