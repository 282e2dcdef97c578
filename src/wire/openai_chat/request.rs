//! Requests: what must be known before sending, read in one pass with no tree.

use super::content::Content;
use crate::wire::json::{Kind, Member, ScanError, Scanner, Span};

/// Longest model name taken, characters.
pub const MAX_MODEL_CHARS: usize = 256;

/// Most output tokens that can be asked for; beyond it the number is a mistake.
const MAX_OUTPUT_TOKENS: u64 = i32::MAX as u64;

/// Most answers per request, OpenAI's own limit.
const MAX_N: u64 = 128;

/// The members that are read. One that comes twice is refused: which of the two an upstream obeys is its
/// secret, and the other would slip past the checks.
const READ: [&str; 13] = [
    "model",
    "stream",
    "stream_options",
    "messages",
    "max_completion_tokens",
    "max_tokens",
    "n",
    "tools",
    "functions",
    "response_format",
    "reasoning_effort",
    "modalities",
    "web_search_options",
];

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

impl RequestError {
    fn field(field: &str, reason: impl Into<String>) -> Self {
        Self { field: Some(field.to_owned()), reason: reason.into(), offset: None }
    }
}

impl From<ScanError> for RequestError {
    fn from(error: ScanError) -> Self {
        let reason = format!("The body is not valid JSON: {error}.");
        Self { field: None, reason, offset: Some(error.offset) }
    }
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
    /// A reasoning effort other than `none` is set.
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
    /// Most output tokens wanted: `max_completion_tokens`, else `max_tokens`. A zero passes to the
    /// upstream and counts as not said, because some take it for no limit.
    pub max_output_tokens: Option<u64>,
    /// Answers wanted; 1 when not said.
    pub n: u32,
    /// What the request asks of a model.
    pub needs: Needs,
    /// Bytes of text that go in, for the estimate of input tokens: messages, tools and schema, inline
    /// media left out.
    pub input_bytes: u64,
    /// The value of `model`, quotes included.
    pub(super) model_span: Span,
    /// What to write where to ask for usage in the stream.
    pub(super) usage_edit: (Span, &'static str),
}

impl Head {
    /// Reads the head of a body. Null counts as absent.
    ///
    /// # Errors
    /// The body is not one JSON object, or a member that Tollway acts on is missing, doubled or of the
    /// wrong kind. Everything else passes unseen.
    pub fn read(body: &[u8]) -> Result<Self, RequestError> {
        let mut scanner = Scanner::new(body)?;
        if scanner.kind()? != Kind::Object {
            let reason = "The body must be a JSON object.".to_owned();
            return Err(RequestError { field: None, reason, offset: Some(scanner.at()) });
        }
        let mut reader = Reader::default();
        scanner.object(|scanner, member| reader.member(scanner, &member))?;
        scanner.end()?;
        reader.into_head()
    }
}

#[derive(Default)]
struct Reader {
    /// One bit per name in [`READ`].
    seen: u32,
    model: Option<(String, Span)>,
    stream: bool,
    include_usage: bool,
    usage_edit: Option<(Span, &'static str)>,
    max_completion_tokens: Option<u64>,
    max_tokens: Option<u64>,
    n: Option<u64>,
    has_messages: bool,
    content: Content,
}

impl Reader {
    fn member<'a>(&mut self, scanner: &mut Scanner<'a>, member: &Member<'a>) -> Result<(), RequestError> {
        let name = &*member.key.decode();
        self.refuse_twins(name)?;
        let kind = scanner.kind()?;
        let absent = kind == Kind::Null;
        match name {
            "model" | "messages" if absent => drop(scanner.skip()?),
            "model" => self.model = Some(model(scanner, kind)?),
            "stream" => self.stream = flag(scanner, kind, "stream")?,
            "stream_options" => self.stream_options(scanner, kind)?,
            "messages" if kind == Kind::Array => {
                self.has_messages = true;
                self.content.messages(scanner)?;
            }
            "messages" => {
                return Err(RequestError::field("messages", "`messages` must be an array."));
            }
            "max_completion_tokens" => {
                self.max_completion_tokens =
                    count(scanner, kind, "max_completion_tokens", MAX_OUTPUT_TOKENS)?;
            }
            "max_tokens" => self.max_tokens = count(scanner, kind, "max_tokens", MAX_OUTPUT_TOKENS)?,
            "n" => self.n = count(scanner, kind, "n", MAX_N)?,
            "tools" | "functions" => self.content.tools(scanner)?,
            "response_format" => self.content.response_format(scanner)?,
            "reasoning_effort" => {
                let value = scanner.skip()?;
                self.content.needs.reasoning = !absent && scanner.slice(value) != "\"none\"";
            }
            "modalities" => self.content.modalities(scanner)?,
            "web_search_options" => {
                self.content.needs.search = !absent;
                scanner.skip()?;
            }
            _ => drop(scanner.skip()?),
        }
        Ok(())
    }

    fn refuse_twins(&mut self, name: &str) -> Result<(), RequestError> {
        let Some(place) = READ.iter().position(|read| *read == name) else {
            // Some servers match names without regard to case, and would obey this one.
            if name.eq_ignore_ascii_case("model") {
                return Err(RequestError::field("model", "`model` must be written in lower case."));
            }
            return Ok(());
        };
        let bit = 1 << place;
        if self.seen & bit != 0 {
            return Err(RequestError::field(name, format!("`{name}` is given twice.")));
        }
        self.seen |= bit;
        Ok(())
    }

    fn stream_options(&mut self, scanner: &mut Scanner<'_>, kind: Kind) -> Result<(), RequestError> {
        const FIELD: &str = "stream_options";
        const FLAG: &str = "stream_options.include_usage";
        let start = scanner.at();
        match kind {
            Kind::Object => {}
            Kind::Null => {
                let value = scanner.skip()?;
                self.usage_edit = Some((value, "{\"include_usage\":true}"));
                return Ok(());
            }
            _ => return Err(RequestError::field(FIELD, "`stream_options` must be an object.")),
        }
        let mut is_empty = true;
        let mut flag_span = None;
        scanner.object(|scanner, member| {
            is_empty = false;
            let kind = scanner.kind()?;
            if member.key.decode() != "include_usage" {
                scanner.skip()?;
                return Ok(());
            }
            if flag_span.is_some() {
                return Err(RequestError::field(FLAG, format!("`{FLAG}` is given twice.")));
            }
            let start = scanner.at();
            self.include_usage = flag(scanner, kind, FLAG)?;
            flag_span = Some(Span { start, end: scanner.at() });
            Ok(())
        })?;
        self.usage_edit = Some(match flag_span {
            Some(span) => (span, "true"),
            None if is_empty => (Span::empty(start + 1), "\"include_usage\":true"),
            None => (Span::empty(start + 1), "\"include_usage\":true,"),
        });
        Ok(())
    }

    fn into_head(self) -> Result<Head, RequestError> {
        let (model, model_span) =
            self.model.ok_or_else(|| RequestError::field("model", "`model` is missing."))?;
        if !self.has_messages {
            return Err(RequestError::field("messages", "`messages` is missing."));
        }
        let n = match self.n {
            Some(0) => return Err(RequestError::field("n", "`n` must be at least 1.")),
            Some(n) => u32::try_from(n).unwrap_or(u32::MAX),
            None => 1,
        };
        let after_model = Span::empty(model_span.end);
        Ok(Head {
            model,
            stream: self.stream,
            include_usage: self.include_usage,
            max_output_tokens: self.max_completion_tokens.or(self.max_tokens).filter(|tokens| *tokens > 0),
            n,
            needs: self.content.needs,
            input_bytes: self.content.bytes,
            model_span,
            usage_edit: self
                .usage_edit
                .unwrap_or((after_model, ",\"stream_options\":{\"include_usage\":true}")),
        })
    }
}

fn model(scanner: &mut Scanner<'_>, kind: Kind) -> Result<(String, Span), RequestError> {
    if kind != Kind::String {
        return Err(RequestError::field("model", "`model` must be a string."));
    }
    let text = scanner.string()?;
    let name = text.decode();
    if name.is_empty() {
        return Err(RequestError::field("model", "`model` must not be empty."));
    }
    if text.text_bytes > 4 * MAX_MODEL_CHARS || name.chars().count() > MAX_MODEL_CHARS {
        let reason = format!("`model` must not be longer than {MAX_MODEL_CHARS} characters.");
        return Err(RequestError::field("model", reason));
    }
    Ok((name.into_owned(), text.span))
}

fn flag(scanner: &mut Scanner<'_>, kind: Kind, field: &str) -> Result<bool, RequestError> {
    match kind {
        Kind::True | Kind::False | Kind::Null => {}
        _ => return Err(RequestError::field(field, format!("`{field}` must be true or false."))),
    }
    scanner.skip()?;
    Ok(kind == Kind::True)
}

fn count(scanner: &mut Scanner<'_>, kind: Kind, field: &str, most: u64) -> Result<Option<u64>, RequestError> {
    let value = scanner.skip()?;
    if kind == Kind::Null {
        return Ok(None);
    }
    match scanner.slice(value).parse() {
        Ok(count) if count <= most => Ok(Some(count)),
        _ => {
            let reason = format!("`{field}` must be a whole number of at most {most}, and not negative.");
            Err(RequestError::field(field, reason))
        }
    }
}

#[cfg(test)]
mod tests;
