//! The list of models: OpenAI's fields, and beside them what a client needs to choose.

use bytes::Bytes;
use serde::Serialize;

/// One model of the list.
#[derive(Debug, Clone, Serialize)]
pub struct ModelEntry<'a> {
    /// The public name.
    pub id: &'a str,
    /// When it was added, Unix seconds.
    pub created: i64,
    /// Who offers it, as OpenAI's `owned_by`.
    pub owned_by: &'a str,
    /// What it can do.
    pub capabilities: ModelCapabilities,
    /// Context window, tokens; null when not known.
    pub context_length: Option<u64>,
    /// Most output it gives, tokens; null when not known.
    pub max_output_tokens: Option<u64>,
    /// Selling prices; null when not shown.
    pub pricing: Option<ModelPricing>,
}

/// What a model can do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, named as in the list")]
pub struct ModelCapabilities {
    /// Tool calls.
    pub tools: bool,
    /// Images in the input.
    pub vision: bool,
    /// PDFs in the input.
    pub pdf: bool,
    /// Audio in the input.
    pub audio: bool,
    /// Video in the input.
    pub video: bool,
    /// Answers that follow a JSON schema.
    pub json_schema: bool,
    /// Reasoning.
    pub reasoning: bool,
    /// Web search by the provider.
    pub search: bool,
}

/// Prices per million tokens as decimal strings, such as `"2.50"`; a class not sold apart is absent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct ModelPricing {
    /// The currency, ISO 4217.
    pub currency: String,
    /// Plain input.
    pub input: String,
    /// Output.
    pub output: String,
    /// Input read from a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_read: Option<String>,
    /// Input written to a cache.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_write: Option<String>,
}

/// The whole list, `{"object":"list","data":[…]}`.
#[must_use]
pub fn encode_model_list<'a>(models: impl Iterator<Item = ModelEntry<'a>>) -> Bytes {
    let data = models.map(|model| Listed { object: "model", model }).collect();
    // Plain structs of strings, numbers and flags: serialising them cannot fail.
    Bytes::from(serde_json::to_vec(&List { object: "list", data }).unwrap_or_default())
}

/// One model by itself, as `GET …/models/{model}` answers.
#[must_use]
pub fn encode_model(model: ModelEntry<'_>) -> Bytes {
    Bytes::from(serde_json::to_vec(&Listed { object: "model", model }).unwrap_or_default())
}

#[derive(Serialize)]
struct List<'a> {
    object: &'static str,
    data: Vec<Listed<'a>>,
}

#[derive(Serialize)]
struct Listed<'a> {
    object: &'static str,
    #[serde(flatten)]
    model: ModelEntry<'a>,
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn the_list_has_openai_s_fields_and_ours_beside_them() {
        let entry = ModelEntry {
            id: "fast",
            created: 1_764_460_800,
            owned_by: "tollway",
            capabilities: ModelCapabilities { tools: true, ..ModelCapabilities::default() },
            context_length: Some(128_000),
            max_output_tokens: None,
            pricing: Some(ModelPricing {
                currency: "USD".to_owned(),
                input: "0.15".to_owned(),
                output: "0.60".to_owned(),
                cache_read: Some("0.075".to_owned()),
                cache_write: None,
            }),
        };
        let list: Value = serde_json::from_slice(&encode_model_list([entry].into_iter())).unwrap();
        assert_eq!(list["object"], "list");
        assert_eq!(
            list["data"],
            json!([{
                "id": "fast", "object": "model", "created": 1_764_460_800, "owned_by": "tollway",
                "capabilities": {
                    "tools": true, "vision": false, "pdf": false, "audio": false, "video": false,
                    "json_schema": false, "reasoning": false, "search": false
                },
                "context_length": 128_000, "max_output_tokens": null,
                "pricing": {"currency": "USD", "input": "0.15", "output": "0.60", "cache_read": "0.075"}
            }])
        );
        assert_eq!(encode_model_list(std::iter::empty()), r#"{"object":"list","data":[]}"#);
    }
}
