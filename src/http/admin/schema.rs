//! How shared pieces look in the OpenAPI document, and prices as they are written: decimal texts.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use utoipa::{
    IntoParams, ToSchema,
    openapi::{
        Object, ObjectBuilder, Schema,
        schema::{AdditionalProperties, OneOfBuilder, SchemaFormat, SchemaType, Type},
    },
};

use crate::domain::{money::Nanos, price::Prices};

/// A list that nothing narrows.
#[derive(Deserialize, IntoParams)]
#[serde(deny_unknown_fields)]
pub struct NoFilter {}

/// Prices in units of the deployment's currency, per million tokens (images and requests: per
/// piece). A class without a price costs as its nearest relative; "0" is free.
#[derive(Clone, Copy, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = Prices)]
pub struct PriceList {
    /// Plain input.
    #[serde(with = "amount")]
    #[schema(schema_with = money)]
    input: Option<Nanos>,
    /// Input read from a cache.
    #[serde(with = "amount")]
    #[schema(schema_with = money)]
    cache_read: Option<Nanos>,
    /// Input written to a five-minute cache.
    #[serde(with = "amount")]
    #[schema(schema_with = money)]
    cache_write_5m: Option<Nanos>,
    /// Input written to a one-hour cache.
    #[serde(with = "amount")]
    #[schema(schema_with = money)]
    cache_write_1h: Option<Nanos>,
    /// Output.
    #[serde(with = "amount")]
    #[schema(schema_with = money)]
    output: Option<Nanos>,
    /// Reasoning output.
    #[serde(with = "amount")]
    #[schema(schema_with = money)]
    reasoning: Option<Nanos>,
    /// Audio input.
    #[serde(with = "amount")]
    #[schema(schema_with = money)]
    audio_input: Option<Nanos>,
    /// Audio output.
    #[serde(with = "amount")]
    #[schema(schema_with = money)]
    audio_output: Option<Nanos>,
    /// Per image made.
    #[serde(with = "amount")]
    #[schema(schema_with = money)]
    image: Option<Nanos>,
    /// Per call billed by the piece.
    #[serde(with = "amount")]
    #[schema(schema_with = money)]
    request: Option<Nanos>,
}

impl From<PriceList> for Prices {
    fn from(list: PriceList) -> Self {
        Self {
            input: list.input,
            cache_read: list.cache_read,
            cache_write_5m: list.cache_write_5m,
            cache_write_1h: list.cache_write_1h,
            output: list.output,
            reasoning: list.reasoning,
            audio_input: list.audio_input,
            audio_output: list.audio_output,
            image: list.image,
            request: list.request,
        }
    }
}

impl From<Prices> for PriceList {
    fn from(prices: Prices) -> Self {
        Self {
            input: prices.input,
            cache_read: prices.cache_read,
            cache_write_5m: prices.cache_write_5m,
            cache_write_1h: prices.cache_write_1h,
            output: prices.output,
            reasoning: prices.reasoning,
            audio_input: prices.audio_input,
            audio_output: prices.audio_output,
            image: prices.image,
            request: prices.request,
        }
    }
}

/// Money as decimal text: exact in every client.
pub(super) mod amount {
    use super::{Deserialize, Deserializer, Error, Nanos, Serializer};

    #[expect(clippy::ref_option, reason = "serde calls it with the field")]
    pub fn serialize<S: Serializer>(amount: &Option<Nanos>, s: S) -> Result<S::Ok, S::Error> {
        match amount {
            Some(amount) => s.collect_str(amount),
            None => s.serialize_none(),
        }
    }

    pub fn deserialize<'de, D: Deserializer<'de>>(d: D) -> Result<Option<Nanos>, D::Error> {
        let text = Option::<String>::deserialize(d)?;
        text.map(|text| text.parse().map_err(D::Error::custom)).transpose()
    }
}

/// A decimal amount; null where there is none.
pub(super) fn money() -> Object {
    let kind = SchemaType::from_iter([Type::String, Type::Null]);
    let text = ObjectBuilder::new().schema_type(kind).examples(["2.50"]);
    text.description(Some("A decimal amount of the deployment's currency, with at most nine decimals"))
        .build()
}

/// An instant.
pub(super) fn instant() -> Object {
    let format = SchemaFormat::Custom("date-time".to_owned());
    ObjectBuilder::new().schema_type(Type::String).format(Some(format)).build()
}

/// An instant, or null.
pub(super) fn maybe_instant() -> Object {
    nullable(Type::String, instant())
}

/// A text that goes in and never comes out.
pub(super) fn secret() -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String).write_only(true);
    text.description(Some("Never shown; in a change, absent keeps the one there is")).build()
}

/// What replaces a model's capabilities, or null.
pub(super) fn maybe_capabilities() -> Object {
    nullable(Type::Object, capabilities())
}

fn nullable(kind: Type, mut object: Object) -> Object {
    object.schema_type = SchemaType::from_iter([kind, Type::Null]);
    object
}

/// Windows; a field that is absent or null does not limit.
pub(super) fn limits() -> Object {
    let kind = SchemaType::from_iter([Type::Integer, Type::Null]);
    numbers(&["rpm", "tpm", "concurrency"], &kind, "Absent or null: no limit; 0: nothing passes")
}

/// How long to wait for what.
pub(super) fn timeouts() -> Object {
    let kind = SchemaType::new(Type::Integer);
    numbers(&["connect_ms", "idle_ms", "total_ms"], &kind, "Milliseconds, 1 to 86400000")
}

/// What a model can do.
pub(super) fn capabilities() -> Object {
    let names = ["tools", "vision", "pdf", "audio", "video", "json_schema", "reasoning", "search"];
    let flag = || ObjectBuilder::new().schema_type(Type::Boolean).build();
    let object = ObjectBuilder::new().schema_type(Type::Object);
    names.into_iter().fold(object, |object, name| object.property(name, flag())).build()
}

/// How a key is presented: `bearer`, `none`, or an object that names the header or query parameter.
pub(super) fn auth() -> Schema {
    either(&["bearer", "none"], &["header", "query"])
}

/// Whom a grant speaks of: `tenant`, or an object that names the member or access token.
pub(super) fn subject() -> Schema {
    either(&["tenant"], &["member", "access_token"])
}

/// Texts by name.
pub(super) fn texts() -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String).build();
    let values = AdditionalProperties::from(Schema::Object(text));
    ObjectBuilder::new().schema_type(Type::Object).additional_properties(Some(values)).build()
}

/// Which models may be used and which not, by name or pattern; null does not narrow.
pub(super) fn grants() -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let list = utoipa::openapi::ArrayBuilder::new().items(text).build();
    let object = ObjectBuilder::new().schema_type(SchemaType::from_iter([Type::Object, Type::Null]));
    object.property("allow", list.clone()).property("deny", list).build()
}

macro_rules! one_of {
    ($($(#[$doc:meta])* $name:ident: $($value:literal)|+;)*) => {$(
        $(#[$doc])*
        pub(super) fn $name() -> Object {
            ObjectBuilder::new().schema_type(Type::String).enum_values(Some([$($value),+])).build()
        }
    )*};
}

one_of! {
    /// A wire format.
    format: "openai.chat";
    /// A cost class.
    tier: "subscription" | "cheap" | "free";
    /// An HTTP version.
    transport: "http1" | "http2";
    /// The state of a key.
    key_state: "active" | "invalid" | "disabled";
    /// How a tenant pays.
    billing: "unmetered" | "prepaid";
    /// A role in a tenant.
    member_role: "owner" | "admin" | "member" | "auditor";
    /// Any role.
    role: "operator" | "owner" | "admin" | "member" | "auditor";
    /// What a grant says.
    effect: "allow" | "deny";
    /// What an access token looks like.
    token_form: "jwt" | "opaque";
    /// What an access token looks like, set-up tokens included.
    token_kind: "jwt" | "opaque" | "setup";
    /// What a ledger entry is for.
    ledger_kind: "top_up" | "charge" | "refund" | "adjustment";
    /// What an operator may book.
    booking_kind: "top_up" | "refund" | "adjustment";
}

fn numbers(names: &[&str], kind: &SchemaType, description: &str) -> Object {
    let number = || ObjectBuilder::new().schema_type(kind.clone()).build();
    let object = ObjectBuilder::new().schema_type(Type::Object).description(Some(description));
    names.iter().fold(object, |object, name| object.property(*name, number())).build()
}

fn either(words: &[&str], fields: &[&str]) -> Schema {
    let word = ObjectBuilder::new().schema_type(Type::String).enum_values(Some(words.iter().copied()));
    let named = |field: &&str| {
        let text = ObjectBuilder::new().schema_type(Type::String);
        ObjectBuilder::new().schema_type(Type::Object).property(*field, text).required(*field)
    };
    let one = fields.iter().fold(OneOfBuilder::new().item(word), |one, field| one.item(named(field)));
    Schema::OneOf(one.build())
}
