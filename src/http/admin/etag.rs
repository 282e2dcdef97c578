//! Versions as entity tags (RFC 9110 §8.8.3), and the conditions that callers make of them.

use actix_web::{
    HttpRequest,
    http::header::{self, HeaderName},
};

use crate::http::admin::problem::Problem;

/// Which versions a caller is willing to change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expected {
    /// Whatever it is.
    Any,
    /// One of these.
    OneOf(Vec<i64>),
}

impl Expected {
    /// Refuses a version that is not expected.
    ///
    /// # Errors
    /// 412.
    pub(super) fn check(&self, current: i64) -> Result<(), Problem> {
        match self {
            Self::OneOf(versions) if !versions.contains(&current) => Err(Problem::stale(current)),
            Self::Any | Self::OneOf(_) => Ok(()),
        }
    }
}

/// The tag of a version.
pub(super) fn of(version: i64) -> String {
    format!("\"{version}\"")
}

/// What the caller expects, where it says so.
pub(super) fn expected(request: &HttpRequest) -> Option<Expected> {
    // A weak tag does not do for a change (RFC 9110 §13.1.1).
    read(request, header::IF_MATCH, false)
}

/// What the caller expects.
///
/// # Errors
/// 428 when it does not say.
pub(super) fn required(request: &HttpRequest) -> Result<Expected, Problem> {
    expected(request).ok_or_else(Problem::precondition_required)
}

/// Whether the caller has this version already.
pub(super) fn is_known(request: &HttpRequest, version: i64) -> bool {
    match read(request, header::IF_NONE_MATCH, true) {
        Some(Expected::Any) => true,
        Some(Expected::OneOf(versions)) => versions.contains(&version),
        None => false,
    }
}

/// Tags of any other form belong to no version.
fn read(request: &HttpRequest, name: HeaderName, may_be_weak: bool) -> Option<Expected> {
    let text = request.headers().get(name)?.to_str().unwrap_or_default().trim();
    if text == "*" {
        return Some(Expected::Any);
    }
    let number = |tag: &str| {
        let tag = tag.trim();
        let tag = tag.strip_prefix("W/").filter(|_| may_be_weak).unwrap_or(tag);
        // Without its quotes it is no tag, but it can mean nothing else.
        tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')).unwrap_or(tag).parse().ok()
    };
    Some(Expected::OneOf(text.split(',').filter_map(number).collect()))
}

#[cfg(test)]
mod tests {
    use actix_web::test::TestRequest;

    use super::*;

    fn expecting(text: &'static str) -> Option<Expected> {
        expected(&TestRequest::default().insert_header((header::IF_MATCH, text)).to_http_request())
    }

    #[test]
    fn a_condition_is_read_as_http_has_it() {
        assert_eq!(expecting("*"), Some(Expected::Any));
        assert_eq!(expecting("\"3\", \"14\""), Some(Expected::OneOf(vec![3, 14])));
        assert_eq!(expecting("W/\"3\""), Some(Expected::OneOf(vec![])));
        assert_eq!(expecting("3"), Some(Expected::OneOf(vec![3])));
        assert_eq!(expecting("\"3"), Some(Expected::OneOf(vec![])));
        assert_eq!(expected(&TestRequest::default().to_http_request()), None);
    }

    #[test]
    fn a_known_version_may_be_named_weakly() {
        let request =
            TestRequest::default().insert_header((header::IF_NONE_MATCH, "W/\"7\"")).to_http_request();
        assert!(is_known(&request, 7) && !is_known(&request, 8));
    }
}
