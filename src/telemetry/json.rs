//! Events as JSON lines: one flat object each.
//!
//! The subscriber's own formatter builds each line through `serde` and costs a request more than its
//! admission does; this one appends to the line as the fields come.

use std::{
    cell::RefCell,
    fmt::{self, Write},
};

use tracing::{
    Event, Subscriber,
    field::{Field, Visit},
};
use tracing_subscriber::{
    fmt::{FmtContext, FormatEvent, FormatFields, format::Writer},
    registry::LookupSpan,
};

use crate::domain::clock::{Clock, SystemClock, Timestamp};

/// The longest buffer for a line that a thread keeps, bytes.
const MAX_KEPT: usize = 16 << 10;

/// Formats an event as `{"timestamp":…,"level":…,"target":…,"message":…,…}`.
#[derive(Debug, Clone, Copy)]
pub struct JsonLine;

impl<S, N> FormatEvent<S, N> for JsonLine
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    N: for<'w> FormatFields<'w> + 'static,
{
    fn format_event(&self, _: &FmtContext<'_, S, N>, mut line: Writer<'_>, event: &Event<'_>) -> fmt::Result {
        thread_local! {
            static LINE: RefCell<String> = const { RefCell::new(String::new()) };
        }
        // Taken, not borrowed: a value that logs while it is written finds an empty one.
        let mut text = LINE.take();
        let written = write_line(&mut text, event).and_then(|()| line.write_str(&text));
        if text.capacity() <= MAX_KEPT {
            text.clear();
            LINE.set(text);
        }
        written
    }
}

fn write_line(line: &mut String, event: &Event<'_>) -> fmt::Result {
    let metadata = event.metadata();
    line.push_str("{\"timestamp\":\"");
    write_time(line, SystemClock.now())?;
    line.push_str("\",\"level\":\"");
    line.push_str(metadata.level().as_str());
    line.push_str("\",\"target\":\"");
    line.push_str(metadata.target());
    line.push('"');
    let mut fields = Fields { line, result: Ok(()) };
    event.record(&mut fields);
    fields.result?;
    line.push_str("}\n");
    Ok(())
}

/// Appends an instant as RFC 3339 in UTC, to the microsecond. What does not change within a second is
/// made once a second and thread.
fn write_time(line: &mut impl Write, at: Timestamp) -> fmt::Result {
    thread_local! {
        static SECOND: RefCell<(i64, String)> = const { RefCell::new((i64::MIN, String::new())) };
    }
    let (second, micros) = (at.unix_us().div_euclid(1_000_000), at.unix_us().rem_euclid(1_000_000));
    SECOND.with_borrow_mut(|(known, text)| {
        if *known != second {
            let whole = Timestamp::from_unix_us(second * 1_000_000).to_utc();
            *text = whole.format("%Y-%m-%dT%H:%M:%S.").to_string();
            *known = second;
        }
        line.write_str(text)
    })?;
    let mut buffer = itoa::Buffer::new();
    let digits = buffer.format(micros);
    line.write_str(&"00000"[..6 - digits.len()])?;
    line.write_str(digits)?;
    line.write_char('Z')
}

/// Appends each field; remembers the first failure.
struct Fields<'l> {
    line: &'l mut String,
    result: fmt::Result,
}

impl Fields<'_> {
    fn append(&mut self, field: &Field, value: impl FnOnce(&mut String) -> fmt::Result) {
        if self.result.is_ok() {
            self.line.push_str(",\"");
            // Our own names, in which nothing has to be escaped.
            self.line.push_str(field.name());
            self.line.push_str("\":");
            self.result = value(self.line);
        }
    }

    fn text(&mut self, field: &Field, text: fmt::Arguments<'_>) {
        self.append(field, |line| {
            line.push('"');
            Escaped(line).write_fmt(text)?;
            line.push('"');
            Ok(())
        });
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.append(field, |line| {
            line.push('"');
            escape(value, line);
            line.push('"');
            Ok(())
        });
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.append(field, |line| {
            line.push_str(itoa::Buffer::new().format(value));
            Ok(())
        });
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.append(field, |line| {
            line.push_str(itoa::Buffer::new().format(value));
            Ok(())
        });
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.append(field, |line| {
            line.push_str(if value { "true" } else { "false" });
            Ok(())
        });
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        // JSON has no words for what is not finite.
        if value.is_finite() {
            self.append(field, |line| write!(line, "{value}"));
        } else {
            self.text(field, format_args!("{value}"));
        }
    }

    /// An error with all its causes.
    fn record_error(&mut self, field: &Field, value: &(dyn std::error::Error + 'static)) {
        self.append(field, |line| {
            line.push('"');
            let mut text = Escaped(&mut *line);
            write!(text, "{value}")?;
            let mut cause = value.source();
            while let Some(error) = cause {
                write!(text, ": {error}")?;
                cause = error.source();
            }
            line.push('"');
            Ok(())
        });
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.text(field, format_args!("{value:?}"));
    }
}

/// Writes the inside of a JSON string.
struct Escaped<'l>(&'l mut String);

impl Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        escape(text, self.0);
        Ok(())
    }
}

/// Appends `text` as the inside of a JSON string.
fn escape(text: &str, line: &mut String) {
    let is_escaped = |byte: u8| matches!(byte, b'"' | b'\\' | 0..=0x1F);
    // Without a way out of the loop it looks at many bytes at a time; hardly any text has one.
    if !text.bytes().fold(false, |found, byte| found | is_escaped(byte)) {
        line.push_str(text);
        return;
    }
    let mut from = 0;
    for (at, byte) in text.bytes().enumerate() {
        if !is_escaped(byte) {
            continue;
        }
        // A byte that is escaped is a character of its own, so `from` and `at` are boundaries.
        line.push_str(&text[from..at]);
        match byte {
            b'"' => line.push_str("\\\""),
            b'\\' => line.push_str("\\\\"),
            b'\n' => line.push_str("\\n"),
            _ => {
                let digit = char::from(b"0123456789abcdef"[usize::from(byte & 15)]);
                line.push_str(if byte < 16 { "\\u000" } else { "\\u001" });
                line.push(digit);
            }
        }
        from = at + 1;
    }
    line.push_str(&text[from..]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn an_instant_is_written_as_it_prints(us in 0i64..4_000_000_000_000_000) {
            let at = Timestamp::from_unix_us(us);
            let mut text = String::new();
            write_time(&mut text, at).unwrap();
            prop_assert_eq!(text, at.to_string());
        }

        #[test]
        fn any_text_is_read_back_as_it_was(text in any::<String>()) {
            let mut line = String::from("\"");
            escape(&text, &mut line);
            line.push('"');
            prop_assert_eq!(serde_json::from_str::<String>(&line).unwrap(), text);
        }
    }
}
