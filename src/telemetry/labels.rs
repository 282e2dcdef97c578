//! Label values as closed enums: a label whose values a caller could invent cannot be typed.
//!
//! The only open labels are `provider` and `model`, whose values an admin adds.

use crate::domain::{event::Outcome, failure::FailureClass, key::KeyState, provider::ApiFormat};

/// A closed set of label values, small enough for an array of counters.
pub trait Label: Copy + 'static {
    /// Every value, in the order of [`Label::index`].
    const ALL: &'static [Self];

    /// The value as scraped.
    fn label(self) -> &'static str;

    /// Where it stands in [`Label::ALL`].
    fn index(self) -> usize;
}

macro_rules! labels {
    ($($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $text:literal,)* })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name { $($(#[$vdoc])* $variant,)* }

        impl Label for $name {
            const ALL: &'static [Self] = &[$(Self::$variant,)*];

            fn label(self) -> &'static str {
                match self { $(Self::$variant => $text,)* }
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}

/// Makes an enum of the domain a label; the order is that of its declaration.
macro_rules! domain_labels {
    ($($name:ident: $($variant:ident)*;)*) => {$(
        impl Label for $name {
            const ALL: &'static [Self] = &[$(Self::$variant,)*];

            fn label(self) -> &'static str {
                self.as_str()
            }

            fn index(self) -> usize {
                self as usize
            }
        }
    )*};
}

domain_labels! {
    ApiFormat: OpenAiChat;
    Outcome: Completed Aborted Rejected Failed Interrupted;
    FailureClass: ClientFault RateLimited QuotaOut RefusedCredential RefusedRequest ModelMissing Overloaded
        Broken;
    KeyState: Active Invalid Disabled;
}

labels! {
    /// Why a request was refused before any attempt.
    Refusal {
        /// The head, the body or a parameter could not be read.
        BadRequest = "bad_request",
        /// The body is larger than the limit.
        TooLarge = "too_large",
        /// The bodies under way take all the memory that they may.
        BodyMemory = "body_memory",
        /// No such model, or it is switched off, or not granted to the caller.
        UnknownModel = "unknown_model",
        /// The role may not relay.
        NotPermitted = "not_permitted",
        /// Requests per minute.
        Rpm = "rpm",
        /// Tokens per minute.
        Tpm = "tpm",
        /// Requests in flight.
        Concurrency = "concurrency",
        /// The balance is spent, or held.
        Funds = "funds",
        /// No route of the model can serve the request.
        NoRoute = "no_route",
        /// Every key is cooling or full.
        NoKey = "no_key",
        /// The journal has no room.
        JournalFull = "journal_full",
        /// The store is away, and what is known of the tenant's balance does not suffice.
        Unavailable = "unavailable",
    }

    /// Why an access token was not let in.
    AuthDenial {
        /// None was presented.
        Missing = "missing",
        /// It is no JWT and no opaque token, or its claims are unusable.
        Malformed = "malformed",
        /// No such opaque token.
        Unknown = "unknown",
        /// The signature or the signing key is wrong.
        BadSignature = "bad_signature",
        /// Wrong issuer or audience.
        Untrusted = "untrusted",
        /// Past its time.
        Expired = "expired",
        /// Before its time.
        NotYetValid = "not_yet_valid",
        /// Revoked, itself or with its member's generation.
        Revoked = "revoked",
        /// Its tenant or member is switched off or gone.
        Disabled = "disabled",
        /// Too many failures from one address.
        Throttled = "throttled",
        /// It could not be verified because the store is away.
        Unavailable = "unavailable",
    }

    /// A call to the admission backend.
    AdmissionOp {
        /// A request at the door.
        Enter = "enter",
        /// A key for an attempt.
        Acquire = "acquire",
        /// Both in one round trip.
        EnterAcquire = "enter_acquire",
        /// A lease or pass given back.
        Settle = "settle",
        /// Live leases kept alive.
        Renew = "renew",
        /// Something taken out, or back in.
        Cool = "cool",
        /// A look by an operator.
        Inspect = "inspect",
    }

    /// Which side of the books.
    MoneyKind {
        /// What tenants pay.
        Charge = "charge",
        /// What providers take.
        Cost = "cost",
    }

    /// A disjoint class of tokens.
    TokenClass {
        /// Neither read from nor written to a cache.
        Input = "input",
        /// Read from the provider's cache.
        CacheRead = "cache_read",
        /// Written to a cache.
        CacheWrite = "cache_write",
        /// Text and reasoning.
        Output = "output",
        /// Audio in the input.
        AudioInput = "audio_input",
        /// Audio in the output.
        AudioOutput = "audio_output",
    }

    /// Whether the client asked for a stream.
    Streamed {
        /// One JSON answer.
        No = "false",
        /// Server-sent events.
        Yes = "true",
    }
}

impl From<bool> for Streamed {
    fn from(stream: bool) -> Self {
        if stream { Self::Yes } else { Self::No }
    }
}

/// How an attempt ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum AttemptEnd {
    /// It answered.
    Served,
    /// The client left first.
    Aborted,
    /// It failed.
    Failed(FailureClass),
}

impl Label for AttemptEnd {
    const ALL: &'static [Self] = &[
        Self::Served,
        Self::Aborted,
        Self::Failed(FailureClass::ClientFault),
        Self::Failed(FailureClass::RateLimited),
        Self::Failed(FailureClass::QuotaOut),
        Self::Failed(FailureClass::RefusedCredential),
        Self::Failed(FailureClass::RefusedRequest),
        Self::Failed(FailureClass::ModelMissing),
        Self::Failed(FailureClass::Overloaded),
        Self::Failed(FailureClass::Broken),
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Served => "served",
            Self::Aborted => "aborted",
            Self::Failed(class) => class.as_str(),
        }
    }

    fn index(self) -> usize {
        match self {
            Self::Served => 0,
            Self::Aborted => 1,
            Self::Failed(class) => 2 + class.index(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees<L: Label + PartialEq + std::fmt::Debug>() {
        for (index, value) in L::ALL.iter().enumerate() {
            assert_eq!(value.index(), index, "{value:?}");
        }
    }

    #[test]
    fn every_index_is_the_place_in_the_list() {
        agrees::<ApiFormat>();
        agrees::<Outcome>();
        agrees::<FailureClass>();
        agrees::<KeyState>();
        agrees::<Refusal>();
        agrees::<AuthDenial>();
        agrees::<AdmissionOp>();
        agrees::<TokenClass>();
        agrees::<AttemptEnd>();
    }
}
