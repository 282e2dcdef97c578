//! When a provider will take requests again, by its own words (PROTOCOLS §13).

use std::time::Duration;

use chrono::DateTime;
use http::{HeaderMap, HeaderName, HeaderValue, header::RETRY_AFTER};
use serde_json::Value;

use crate::domain::clock::Timestamp;

/// A wait beyond this is no rate limit but a mistake, such as an instant taken for a span.
const LONGEST: Duration = Duration::from_secs(35 * 24 * 3_600);

/// The wait that the headers name: `retry-after-ms`, else `retry-after`, else the latest reset
/// among the limits that are exhausted.
#[must_use]
pub fn from_headers(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = |name: &HeaderName| headers.get(name).and_then(|value| value.to_str().ok());
    let in_ms = text(&HeaderName::from_static("retry-after-ms")).and_then(|ms| seconds(ms, 1_000.0));
    in_ms
        .or_else(|| text(&RETRY_AFTER).and_then(|value| retry_after(value, now)))
        .or_else(|| exhausted(headers, now))
}

/// The wait that an error's body names: Google's `RetryInfo`, `resets_in_seconds`, `resets_at`.
#[must_use]
pub fn from_body(body: &[u8], now: Timestamp) -> Option<Duration> {
    let value: Value = serde_json::from_slice(body).ok()?;
    let whole = value.get(0).unwrap_or(&value);
    let error = whole.get("error").filter(|error| error.is_object()).unwrap_or(whole);
    let details = error.get("details").and_then(Value::as_array).into_iter().flatten();
    let google = details.filter_map(|detail| detail.get("retryDelay")?.as_str()).find_map(duration);
    google.or_else(|| [error, whole].into_iter().find_map(|at| resets(at, now)))
}

/// `retry-after`: seconds, whole or not, or an HTTP date.
fn retry_after(value: &str, now: Timestamp) -> Option<Duration> {
    seconds(value, 1.0).or_else(|| {
        let at = DateTime::parse_from_rfc2822(value.trim()).ok()?;
        until(at.to_utc().into(), now)
    })
}

/// The latest reset among limits of which nothing remains.
fn exhausted(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let resets = headers.iter().filter_map(|(name, remaining)| {
        let is_spent = seconds(remaining.to_str().ok()?, 1.0)? == Duration::ZERO;
        let reset = is_spent.then(|| reset_beside(name.as_str()))??;
        reset_value(headers.get(reset)?, now)
    });
    resets.max()
}

/// The name of the reset that belongs to a «remaining».
fn reset_beside(remaining: &str) -> Option<String> {
    let is_limit = ["x-ratelimit-", "anthropic-ratelimit-", "ratelimit-"]
        .iter()
        .any(|prefix| remaining.starts_with(prefix));
    let is_remaining = remaining.split('-').any(|word| word == "remaining");
    (is_limit && is_remaining).then(|| remaining.replace("remaining", "reset"))
}

/// A reset: a duration, bare seconds, or an instant as RFC 3339 or Unix seconds.
fn reset_value(value: &HeaderValue, now: Timestamp) -> Option<Duration> {
    let value = value.to_str().ok()?.trim();
    duration(value).or_else(|| span_or_instant(value.parse().ok()?, now)).or_else(|| rfc3339(value, now))
}

fn resets(at: &Value, now: Timestamp) -> Option<Duration> {
    let span = at.get("resets_in_seconds").and_then(Value::as_f64).and_then(bounded);
    span.or_else(|| match at.get("resets_at")? {
        Value::Number(number) => span_or_instant(number.as_f64()?, now),
        Value::String(text) => rfc3339(text, now),
        _ => None,
    })
}

fn rfc3339(text: &str, now: Timestamp) -> Option<Duration> {
    until(DateTime::parse_from_rfc3339(text).ok()?.to_utc().into(), now)
}

/// A bare number is a span in seconds, or, when far too large for one, a Unix time in seconds or
/// milliseconds.
fn span_or_instant(number: f64, now: Timestamp) -> Option<Duration> {
    const FIRST_INSTANT_S: f64 = 1e9;
    const FIRST_INSTANT_MS: f64 = 1e12;
    if number < FIRST_INSTANT_S {
        return bounded(number);
    }
    let at = if number < FIRST_INSTANT_MS { number } else { number / 1_000.0 };
    let since_epoch = Duration::try_from_secs_f64(at).ok()?;
    until(Timestamp::default().plus(since_epoch), now)
}

/// What is left until `at`; nothing when it is past.
fn until(at: Timestamp, now: Timestamp) -> Option<Duration> {
    Some(at.since(now)).filter(|&span| span <= LONGEST)
}

/// A number in units of which `per_second` make a second.
fn seconds(text: &str, per_second: f64) -> Option<Duration> {
    let text = text.trim();
    let is_number = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if !is_number {
        return None;
    }
    bounded(text.parse::<f64>().ok()? / per_second)
}

fn bounded(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds).ok().filter(|&span| span <= LONGEST)
}

/// A duration text: `20ms`, `8.64s`, `1m51.595s`, `2h3m`, `1d`.
fn duration(text: &str) -> Option<Duration> {
    let mut rest = text.trim();
    if rest.is_empty() {
        return None;
    }
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.bytes().take_while(|&byte| byte.is_ascii_digit() || byte == b'.').count();
        let (number, after) = rest.split_at(digits);
        let letters = after.bytes().take_while(u8::is_ascii_alphabetic).count();
        let (unit, next) = after.split_at(letters);
        let unit_seconds = match unit {
            "d" => 86_400.0,
            "h" => 3_600.0,
            "m" => 60.0,
            "s" => 1.0,
            "ms" => 1e-3,
            "us" => 1e-6,
            "ns" => 1e-9,
            _ => return None,
        };
        let part = bounded(number.parse::<f64>().ok()? * unit_seconds)?;
        total = total.checked_add(part)?;
        rest = next;
    }
    Some(total).filter(|&span| span <= LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp::from_unix_s(1_800_000_000);

    fn wait(headers: &[(&'static str, &str)]) -> Option<Duration> {
        let map = headers
            .iter()
            .map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()))
            .collect();
        from_headers(&map, NOW)
    }

    #[expect(clippy::unnecessary_wraps, reason = "what it is compared with")]
    fn secs(seconds: f64) -> Option<Duration> {
        Some(Duration::from_secs_f64(seconds))
    }

    #[test]
    fn retry_after_is_seconds_or_a_date() {
        assert_eq!(wait(&[("retry-after", "30")]), secs(30.0));
        assert_eq!(wait(&[("retry-after", "0.5")]), secs(0.5));
        assert_eq!(wait(&[("retry-after", "Fri, 15 Jan 2027 08:01:00 GMT")]), secs(60.0));
        assert_eq!(wait(&[("retry-after", "Fri, 15 Jan 2027 07:00:00 GMT")]), secs(0.0));
        for nonsense in ["", "soon", "-5", "1e400", "inf", "NaN", "99999999999999999999", "."] {
            assert_eq!(wait(&[("retry-after", nonsense)]), None, "{nonsense}");
        }
    }

    #[test]
    fn milliseconds_win_over_seconds() {
        assert_eq!(wait(&[("retry-after", "30"), ("retry-after-ms", "1500")]), secs(1.5));
    }

    #[test]
    fn only_an_exhausted_limit_counts() {
        let both = |requests, tokens| {
            wait(&[
                ("x-ratelimit-remaining-requests", requests),
                ("x-ratelimit-reset-requests", "2m30s"),
                ("x-ratelimit-remaining-tokens", tokens),
                ("x-ratelimit-reset-tokens", "8.64s"),
            ])
        };
        assert_eq!(both("10", "0"), secs(8.64));
        assert_eq!(both("0", "10"), secs(150.0));
        assert_eq!(both("0", "0"), secs(150.0));
        assert_eq!(both("1", "1"), None);
        assert_eq!(wait(&[("x-ratelimit-remaining", "0"), ("x-ratelimit-reset", "12")]), secs(12.0));
    }

    #[test]
    fn resets_are_durations_seconds_or_instants() {
        for (value, expected) in [
            ("20ms", 0.02),
            ("1m51.595s", 111.595),
            ("1h0m1s", 3_601.0),
            ("7", 7.0),
            ("1800000009", 9.0),
            ("1800000009000", 9.0),
            ("2027-01-15T08:00:30Z", 30.0),
        ] {
            let headers =
                [("anthropic-ratelimit-tokens-remaining", "0"), ("anthropic-ratelimit-tokens-reset", value)];
            assert_eq!(wait(&headers), secs(expected), "{value}");
        }
    }

    #[test]
    fn bodies_name_their_wait() {
        let google = br#"{"error":{"code":429,"details":[{"@type":"type.googleapis.com/google.rpc.Help"},
            {"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34.5s"}]}}"#;
        assert_eq!(from_body(google, NOW), secs(34.5));
        let listed = [b"[".as_slice(), google, b"]"].concat();
        assert_eq!(from_body(&listed, NOW), secs(34.5));
        for (body, expected) in [
            (r#"{"error":{"resets_in_seconds":90}}"#, Some(90.0)),
            (r#"{"error":{"resets_at":1800000060}}"#, Some(60.0)),
            (r#"{"resets_at":"2027-01-15T08:00:05Z"}"#, Some(5.0)),
            (r#"{"error":"text","resets_in_seconds":3}"#, Some(3.0)),
            (r#"{"error":{"resets_in_seconds":-1}}"#, None),
            (r#"{"error":{"message":"no"}}"#, None),
            ("not json", None),
        ] {
            assert_eq!(from_body(body.as_bytes(), NOW), expected.and_then(secs), "{body}");
        }
    }
}
