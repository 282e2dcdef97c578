//! One face for the two shapes of an answer: a stream of events and one JSON document.

use bytes::BytesMut;

use crate::{
    relay::flight::Asked,
    upstream::Redactor,
    wire::openai_chat::{
        BodyEnd, BodyFilter, ChatUsage, FilterConfig, StreamEnd, StreamFilter, UpstreamErrorText,
    },
};

/// Rewrites and meters an answer as its bytes pass.
pub(super) enum Filter {
    /// Server-sent events, and what masks the key in those that are no plain chunks.
    Stream(StreamFilter, Redactor),
    /// One JSON document, and how many pieces of it have come.
    Body(BodyFilter, u64),
}

/// What the bytes so far have shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen<'a> {
    /// Content has passed: from here on there is no other attempt.
    pub first_content: bool,
    /// The answer is complete; nothing after this point matters.
    pub terminal: bool,
    /// Every choice has its finish reason; only usage and the end mark may follow.
    pub finished: bool,
    /// Rises with each piece of content.
    pub content_seq: u64,
    /// Text bytes of the output so far.
    pub output_bytes: u64,
    /// The upstream's count, as far as given.
    pub usage: Option<&'a ChatUsage>,
    /// An error inside the answer.
    pub error: Option<&'a UpstreamErrorText>,
}

/// The answer broke a rule of its format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fault;

impl Filter {
    /// For an answer in the form that was asked for, to a client that calls the model `public_model`.
    pub(super) fn new(asked: Asked, public_model: &str, redactor: &Redactor) -> Self {
        if asked.stream {
            let filter = StreamFilter::new(FilterConfig::new(public_model, asked.usage));
            Self::Stream(filter, redactor.clone())
        } else {
            Self::Body(BodyFilter::new(public_model), 0)
        }
    }

    /// Takes what came, appends what may go out.
    pub(super) fn push(&mut self, chunk: &[u8], out: &mut BytesMut) -> Result<(), Fault> {
        match self {
            Self::Stream(filter, redactor) => {
                masked(filter, redactor, out, |filter, out| filter.push(chunk, out).map_err(|_| Fault))
            }
            Self::Body(filter, pieces) => {
                *pieces += 1;
                filter.push(chunk, out).map_err(|_| Fault)
            }
        }
    }

    /// The upstream closed: whether the answer was whole. An error it reported is in [`Filter::seen`].
    pub(super) fn finish(&mut self, out: &mut BytesMut) -> Result<(), Fault> {
        let whole = match self {
            Self::Stream(filter, redactor) => {
                let end = masked(filter, redactor, out, StreamFilter::finish);
                matches!(end, StreamEnd::Complete | StreamEnd::Failed)
            }
            Self::Body(filter, _) => matches!(filter.finish(), BodyEnd::Complete | BodyEnd::Failed),
        };
        whole.then_some(()).ok_or(Fault)
    }

    /// What the bytes so far have shown.
    pub(super) fn seen(&self) -> Seen<'_> {
        match self {
            Self::Stream(filter, _) => {
                let facts = filter.facts();
                Seen {
                    first_content: facts.first_content,
                    terminal: facts.terminal,
                    finished: facts.finish_seen,
                    content_seq: facts.content_seq,
                    output_bytes: facts.output_text_bytes,
                    usage: facts.usage.as_ref(),
                    error: facts.error.as_ref(),
                }
            }
            Self::Body(filter, pieces) => {
                let facts = filter.facts();
                Seen {
                    first_content: false,
                    terminal: false,
                    finished: false,
                    content_seq: *pieces,
                    output_bytes: facts.output_text_bytes,
                    usage: facts.usage.as_ref(),
                    error: facts.error.as_ref(),
                }
            }
        }
    }
}

/// Lets `filter` write, and masks what it wrote if anything but plain chunks was among it: in a chunk
/// stands what the model says, in all else what the upstream says.
fn masked<T>(
    filter: &mut StreamFilter,
    redactor: &Redactor,
    out: &mut BytesMut,
    write: impl FnOnce(&mut StreamFilter, &mut BytesMut) -> T,
) -> T {
    let (foreign, from) = (filter.facts().foreign_frames, out.len());
    let result = write(filter, out);
    if filter.facts().foreign_frames != foreign && redactor.finds_in(&out[from..]) {
        let tail = out.split_off(from);
        out.extend_from_slice(&redactor.redact(&tail));
    }
    result
}
