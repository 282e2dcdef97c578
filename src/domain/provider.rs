//! An upstream service.

use std::{collections::BTreeMap, time::Duration};

use serde::{Deserialize, Serialize};

use crate::domain::{clock::Timestamp, ids::ProviderId};

/// An upstream service: where it is, how it is spoken to, what it is to us.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provider {
    /// Its id.
    pub id: ProviderId,
    /// Unique name that people use, lower-case letters, digits and dashes.
    pub name: String,
    /// Base URL; the call goes to `base_url` + `/chat/completions` for OpenAI Chat.
    pub base_url: String,
    /// The wire format it speaks.
    pub format: ApiFormat,
    /// How a key is presented.
    pub auth: AuthStyle,
    /// Cost class.
    pub tier: Tier,
    /// HTTP version of the connection.
    pub transport: Transport,
    /// Headers added to every call, never secret.
    pub headers: BTreeMap<String, String>,
    /// How long to wait for what.
    pub timeouts: Timeouts,
    /// Switched off by an admin when false.
    pub enabled: bool,
    /// Rises with each change; the `ETag`.
    pub version: i64,
    /// When it was added.
    pub created_at: Timestamp,
    /// When it last changed.
    pub updated_at: Timestamp,
}

/// A wire format by its public name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ApiFormat {
    /// OpenAI Chat Completions.
    #[serde(rename = "openai.chat")]
    OpenAiChat,
}

impl ApiFormat {
    /// The name in tables, files and REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::OpenAiChat => "openai.chat",
        }
    }
}

/// How a key is presented to the provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AuthStyle {
    /// `Authorization: Bearer <key>`.
    Bearer,
    /// A header of this name, such as `x-api-key`, with the bare key.
    Header(String),
    /// A query parameter of this name, such as `key`.
    Query(String),
    /// Nothing is presented; a local server.
    None,
}

/// The cost class of a provider, tried in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tier {
    /// Paid for already.
    Subscription,
    /// Paid by use.
    #[default]
    Cheap,
    /// Free of charge.
    Free,
}

impl Tier {
    /// The name in tables, files and REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Subscription => "subscription",
            Self::Cheap => "cheap",
            Self::Free => "free",
        }
    }
}

/// HTTP version of the connection to the provider.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// HTTP/1.1, plain or TLS: the lean client of the hot path.
    #[default]
    Http1,
    /// HTTP/2 where the server offers it.
    Http2,
}

impl Transport {
    /// The name in tables, files and REST.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Http1 => "http1",
            Self::Http2 => "http2",
        }
    }
}

/// How long to wait for what, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Timeouts {
    /// For the TCP and TLS connection.
    pub connect_ms: u64,
    /// Between two pieces of content, the first included; comments and pings do not count.
    pub idle_ms: u64,
    /// For the whole request, all attempts together.
    pub total_ms: u64,
}

impl Default for Timeouts {
    /// 5 s to connect, 120 s without content, 15 min in all: reasoning models think for minutes.
    fn default() -> Self {
        Self { connect_ms: 5_000, idle_ms: 120_000, total_ms: 900_000 }
    }
}

impl Timeouts {
    /// For the connection.
    #[must_use]
    pub const fn connect(&self) -> Duration {
        Duration::from_millis(self.connect_ms)
    }

    /// Between two pieces of content.
    #[must_use]
    pub const fn idle(&self) -> Duration {
        Duration::from_millis(self.idle_ms)
    }

    /// For the whole request.
    #[must_use]
    pub const fn total(&self) -> Duration {
        Duration::from_millis(self.total_ms)
    }
}
