//! Lists: a piece at a time, oldest first, by an opaque cursor that new objects do not move.

use actix_web::{HttpRequest, HttpResponse};
use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;

use crate::{
    http::admin::{Answer, input, problem::Problem},
    store::Page,
};

/// How many objects a piece has when the caller does not say.
const USUAL: u32 = 50;
/// The most that a piece has.
pub(super) const MOST: u32 = 200;

/// A piece of a list.
#[derive(Serialize, ToSchema)]
pub struct Listed<T> {
    /// The objects, oldest first.
    data: Vec<T>,
    /// Send it as `after` for what follows; null at the end.
    next: Option<String>,
}

/// Which piece of which list is wanted.
pub(super) struct Wanted<F> {
    /// The filter.
    pub filter: F,
    limit: u32,
    after: Option<Uuid>,
}

impl<F: DeserializeOwned> Wanted<F> {
    /// Reads the query.
    ///
    /// # Errors
    /// 422 naming the field.
    pub(super) fn of(request: &HttpRequest) -> Result<Self, Problem> {
        let mut query = input::query(request);
        let limit = query.remove("limit").map_or(Ok(USUAL), |value| limit(&value))?;
        let after = query.remove("after").map(|cursor| position(&cursor)).transpose()?;
        Ok(Self { filter: input::decode(&Value::Object(query))?, limit, after })
    }

    /// One more than wanted: whether it is there says whether the list goes on.
    pub(super) const fn page(&self) -> Page {
        Page { after: self.after, limit: self.limit + 1 }
    }

    /// The answer to what the store gave for [`Wanted::page`].
    #[expect(clippy::unnecessary_wraps, reason = "what every handler ends with")]
    pub(super) fn answer<T, V: Serialize>(
        &self,
        mut rows: Vec<T>,
        id: impl Fn(&T) -> Uuid,
        view: impl Fn(T) -> V,
    ) -> Answer {
        let limit = usize::try_from(self.limit).unwrap_or(usize::MAX);
        let goes_on = rows.len() > limit;
        rows.truncate(limit);
        let next = rows.last().filter(|_| goes_on).map(|last| cursor(id(last)));
        Ok(HttpResponse::Ok().json(Listed { data: rows.into_iter().map(view).collect(), next }))
    }
}

fn limit(value: &Value) -> Result<u32, Problem> {
    let number = value.as_str().and_then(|text| text.parse().ok()).filter(|n| (1..=MOST).contains(n));
    number.ok_or_else(|| Problem::invalid_field("limit", &format!("expected 1 to {MOST}")))
}

fn cursor(id: Uuid) -> String {
    URL_SAFE_NO_PAD.encode(id.as_bytes())
}

fn position(cursor: &Value) -> Result<Uuid, Problem> {
    let bytes = cursor.as_str().and_then(|text| URL_SAFE_NO_PAD.decode(text).ok());
    let id = bytes.and_then(|bytes| Uuid::from_slice(&bytes).ok());
    id.ok_or_else(|| Problem::invalid_field("after", "expected a cursor: the `next` of the piece before"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_nothing_else_is_one() {
        let id = Uuid::from_u128(0x0192_0000_0000_7000_8000_0000_0000_0001);
        assert_eq!(position(&Value::String(cursor(id))).unwrap(), id);
        for bad in ["", "abc", "key_01920000", "%%%%"] {
            assert!(position(&Value::String(bad.into())).is_err(), "{bad}");
        }
    }
}
