//! What a script gives back: one string that holds all answers in `MessagePack`, which is read in a tenth of
//! the time of the same lists in Redis's own protocol.

use std::fmt;

use ::redis::{RedisResult, Value};
use serde::{
    Deserialize, Deserializer,
    de::{Error, SeqAccess, Visitor},
};

use super::calls::odd;

/// What one call gave back.
#[derive(Debug, PartialEq)]
pub struct Answers {
    /// The server's time, in microseconds.
    pub server_us: i64,
    /// In the order of the call's operations; none when it came so late that nothing was done.
    pub all: Vec<Value>,
}

impl Answers {
    /// Reads what a script gave back.
    ///
    /// # Errors
    /// When it is something else.
    pub fn read(value: &Value) -> RedisResult<Self> {
        let Value::BulkString(packed) = value else { return Err(odd()) };
        let answers: Vec<Answer> = rmp_serde::from_slice(packed).map_err(|_| odd())?;
        let mut all = answers.into_iter().map(|Answer(value)| value);
        let Some(Value::Int(server_us)) = all.next() else { return Err(odd()) };
        Ok(Self { server_us, all: all.collect() })
    }
}

/// One answer: a number, a string or a list of these.
struct Answer(Value);

impl<'de> Deserialize<'de> for Answer {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Reader).map(Self)
    }
}

struct Reader;

impl<'de> Visitor<'de> for Reader {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a number, a string or a list")
    }

    fn visit_i64<E: Error>(self, number: i64) -> Result<Value, E> {
        Ok(Value::Int(number))
    }

    fn visit_u64<E: Error>(self, number: u64) -> Result<Value, E> {
        i64::try_from(number).map(Value::Int).map_err(E::custom)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        self.visit_bytes(text.as_bytes())
    }

    // A string of Lua that is no UTF-8, such as an id.
    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Value, E> {
        Ok(Value::BulkString(bytes.to_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        let mut list = Vec::with_capacity(seq.size_hint().unwrap_or(0).min(64));
        while let Some(Answer(value)) = seq.next_element()? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_strings_of_any_bytes_and_lists_are_read() {
        let packed = b"\x95\x07\x01\xd3\xff\xff\xff\xff\xff\xff\xff\xff\xa2\xff\x00\x92\xa1a\x90".to_vec();
        let all = vec![
            Value::Int(1),
            Value::Int(-1),
            Value::BulkString(vec![0xff, 0]),
            Value::Array(vec![Value::BulkString(b"a".to_vec()), Value::Array(Vec::new())]),
        ];
        assert_eq!(Answers::read(&Value::BulkString(packed)).unwrap(), Answers { server_us: 7, all });
    }

    #[test]
    fn anything_else_is_refused() {
        let packed = [&b"\x92\x01"[..], b"\x91\xc3", b"\x90", b"\x01", b""].map(<[u8]>::to_vec);
        for value in packed.map(Value::BulkString).into_iter().chain([Value::Nil, Value::Int(1)]) {
            assert!(Answers::read(&value).is_err(), "{value:?}");
        }
    }
}
