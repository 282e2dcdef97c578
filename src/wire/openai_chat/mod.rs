//! OpenAI Chat Completions, passed through: the client's bytes go up and the provider's bytes come
//! back with only what must change spliced in.
//!
//! - [`Head`] is what is read from a request without a tree, [`prepare`] what goes upstream;
//! - [`StreamFilter`] passes a streamed answer on and gathers [`StreamFacts`] as bytes go by;
//! - [`BodyFilter`] does the same for an answer in one JSON body;
//! - [`ChatUsage`] is usage in disjoint classes, [`UpstreamErrorText`] an error in any dialect's shape;
//! - `encode_…` write what Tollway says itself.

mod chunk;
mod content;
mod error;
mod models;
mod place;
mod prepare;
mod request;
mod response;
mod stream;
mod usage;

pub use error::{UpstreamErrorText, decode_error, encode_error, encode_error_event};
pub use models::{ModelCapabilities, ModelEntry, ModelPricing, encode_model, encode_model_list};
pub use prepare::prepare;
pub use request::{Head, MAX_MODEL_CHARS, Needs, RequestError};
pub use response::{BodyEnd, BodyFacts, BodyFault, BodyFilter};
pub use stream::{FilterConfig, KEEP_ALIVE, StreamEnd, StreamFacts, StreamFault, StreamFilter};
pub use usage::ChatUsage;
