//! What the files may say: one type an object, with its defaults.

use std::{collections::BTreeMap, path::PathBuf};

use serde::{Deserialize, Deserializer, de::Error};
use serde_json::Value;

use crate::domain::{
    grant::Grants,
    limits::Limits,
    model::Capabilities,
    money::Nanos,
    price::Prices,
    principal::Role,
    provider::{ApiFormat, AuthStyle, Tier, Timeouts, Transport},
    secret::Secret,
    tenant::BillingMode,
};

/// A whole file. Its objects are read one by one, so that one that is wrong does not hide another.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileEntry {
    /// Tenants.
    #[serde(default)]
    pub tenants: Vec<Value>,
    /// Providers.
    #[serde(default)]
    pub providers: Vec<Value>,
    /// Models.
    #[serde(default)]
    pub models: Vec<Value>,
    /// Routes by provider.
    #[serde(default)]
    pub routes: BTreeMap<String, Vec<Value>>,
}

/// A tenant, with its people.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TenantEntry {
    /// Its name.
    pub name: String,
    /// Its windows.
    #[serde(default)]
    pub limits: Limits,
    /// How it pays.
    #[serde(default)]
    pub billing: BillingMode,
    /// Not shut out.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// All of its grants; none: as they are.
    pub grants: Option<Grants>,
    /// Its members.
    #[serde(default)]
    pub members: Vec<MemberEntry>,
}

/// A member.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MemberEntry {
    /// The `sub` of its JWTs.
    pub subject: String,
    /// What it may do.
    #[serde(default = "member")]
    pub role: Role,
    /// Its windows.
    #[serde(default)]
    pub limits: Limits,
    /// Not shut out.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// All of its grants; none: as they are.
    pub grants: Option<Grants>,
}

/// A provider, with its keys.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ProviderEntry {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub base_url: String,
    /// What it speaks.
    #[serde(default = "openai_chat")]
    pub format: ApiFormat,
    /// How a key is presented.
    #[serde(default = "bearer")]
    pub auth: AuthStyle,
    /// Cost class.
    #[serde(default)]
    pub tier: Tier,
    /// HTTP version.
    #[serde(default)]
    pub transport: Transport,
    /// Headers of every call.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// How long to wait.
    #[serde(default)]
    pub timeouts: Timeouts,
    /// Switched on.
    #[serde(default = "yes")]
    pub enabled: bool,
    /// Its keys; none: as they are.
    pub keys: Option<Vec<KeyEntry>>,
}

/// A key.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct KeyEntry {
    /// Its name within the provider.
    pub label: String,
    /// Where the credential is; none: as it is, or there is none to present.
    pub secret: Option<SecretEntry>,
    /// The tenant it belongs to.
    pub tenant: Option<String>,
    /// Lower is tried first.
    #[serde(default)]
    pub priority: i32,
    /// Share among equals.
    #[serde(default = "one")]
    pub weight: u32,
    /// Its windows.
    #[serde(default)]
    pub limits: Limits,
    /// Its own base URL.
    pub base_url: Option<String>,
    /// Vendor parameters.
    #[serde(default)]
    pub params: BTreeMap<String, String>,
    /// Switched on.
    #[serde(default = "yes")]
    pub enabled: bool,
}

/// A public model.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ModelEntry {
    /// Its name.
    pub name: String,
    /// What it can do.
    #[serde(default)]
    pub capabilities: Capabilities,
    /// Context window, tokens.
    pub context_tokens: Option<u64>,
    /// Most output, tokens.
    pub max_output_tokens: Option<u64>,
    /// Selling prices.
    #[serde(default)]
    pub prices: PricesEntry,
    /// Switched on.
    #[serde(default = "yes")]
    pub enabled: bool,
}

/// A route of the provider it stands below.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RouteEntry {
    /// The model it serves.
    pub model: String,
    /// The name sent upstream; none: the model's.
    pub upstream_model: Option<String>,
    /// Lower is tried first.
    #[serde(default)]
    pub priority: i32,
    /// Share among equals.
    #[serde(default = "one")]
    pub weight: u32,
    /// Cost prices.
    #[serde(default)]
    pub cost: PricesEntry,
    /// In place of the model's capabilities.
    pub capabilities: Option<Capabilities>,
    /// Switched on.
    #[serde(default = "yes")]
    pub enabled: bool,
}

/// Where a credential is.
pub enum SecretEntry {
    /// In an environment variable of this name.
    Environment(String),
    /// In a file of its own.
    File(PathBuf),
    /// Here.
    Literal(Secret),
}

impl std::fmt::Debug for SecretEntry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Environment(name) => write!(f, "env:{name}"),
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Literal(_) => f.write_str("…"),
        }
    }
}

impl<'de> Deserialize<'de> for SecretEntry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Serde's own message would print what stands here, which may be the credential.
        let Ok(Value::String(text)) = Value::deserialize(deserializer) else {
            return Err(D::Error::custom(
                "expected a text: env:NAME, file:PATH, or the credential, in quotes",
            ));
        };
        Ok(if let Some(name) = text.strip_prefix("env:") {
            Self::Environment(name.to_owned())
        } else if let Some(path) = text.strip_prefix("file:") {
            Self::File(path.into())
        } else {
            Self::Literal(Secret::new(text))
        })
    }
}

/// Prices in units of the deployment's currency, per million tokens or per piece.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PricesEntry {
    input: Option<Amount>,
    cache_read: Option<Amount>,
    cache_write_5m: Option<Amount>,
    cache_write_1h: Option<Amount>,
    output: Option<Amount>,
    reasoning: Option<Amount>,
    audio_input: Option<Amount>,
    audio_output: Option<Amount>,
    image: Option<Amount>,
    request: Option<Amount>,
}

impl From<&PricesEntry> for Prices {
    fn from(entry: &PricesEntry) -> Self {
        let nanos = |amount: Option<Amount>| amount.map(|amount| amount.0);
        Self {
            input: nanos(entry.input),
            cache_read: nanos(entry.cache_read),
            cache_write_5m: nanos(entry.cache_write_5m),
            cache_write_1h: nanos(entry.cache_write_1h),
            output: nanos(entry.output),
            reasoning: nanos(entry.reasoning),
            audio_input: nanos(entry.audio_input),
            audio_output: nanos(entry.audio_output),
            image: nanos(entry.image),
            request: nanos(entry.request),
        }
    }
}

/// Money, written as a number or as a text.
#[derive(Debug, Clone, Copy)]
struct Amount(Nanos);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = match Value::deserialize(deserializer)? {
            Value::String(text) => text,
            // The shortest decimal that means this number is what was written, up to 15 digits.
            Value::Number(number) => number
                .as_f64()
                .filter(|_| number.is_f64())
                .map_or_else(|| number.to_string(), |float| float.to_string()),
            Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => String::new(),
        };
        text.parse().map(Self).map_err(D::Error::custom)
    }
}

const fn yes() -> bool {
    true
}

const fn one() -> u32 {
    1
}

const fn member() -> Role {
    Role::Member
}

const fn openai_chat() -> ApiFormat {
    ApiFormat::OpenAiChat
}

const fn bearer() -> AuthStyle {
    AuthStyle::Bearer
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn prices_are_exact_whether_written_as_number_or_text() {
        for (written, nanos) in [
            (json!(2.5), 2_500_000_000),
            (json!("2.50"), 2_500_000_000),
            (json!(0.075), 75_000_000),
            (json!(0.000_000_001), 1),
            (json!(3), 3_000_000_000),
            (json!("0"), 0),
        ] {
            let amount: Amount = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(amount.0, Nanos::new(nanos), "{written}");
        }
        for wrong in [json!("2,50"), json!(1e-10), json!(true), json!("$2")] {
            assert!(serde_json::from_value::<Amount>(wrong.clone()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_credential_of_the_wrong_kind_is_not_repeated() {
        let error = serde_json::from_value::<SecretEntry>(json!({"plain": "mark-of-the-key"})).unwrap_err();
        assert!(!error.to_string().contains("mark-of-the-key"), "{error}");
        let entry: SecretEntry = serde_json::from_value(json!("mark-of-the-key")).unwrap();
        assert!(!format!("{entry:?}").contains("mark-of-the-key"));
    }
}
