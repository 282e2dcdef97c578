use proptest::prelude::*;

use super::*;
use crate::wire::json::{Scanner, scan::tests::documents};

/// Everything said about a document given in pieces, texts summed up.
fn events(pieces: &[&str]) -> Result<Vec<String>, u64> {
    let mut feed = Feed::default();
    let mut seen = Vec::new();
    let (mut before, mut text) = (0, 0);
    for piece in pieces {
        feed.push(piece, |event| match event {
            Event::Text(bytes) => text += bytes,
            Event::Key(key) => seen.push(format!("key {key}")),
            Event::Start { kind, at } => seen.push(format!("{kind:?} {}", before + at)),
            Event::End { at } => {
                seen.push(format!("end {} said {text}", before + at));
                text = 0;
            }
            Event::Whole { kind, span, text } => {
                seen.push(format!("{kind:?} {}", before + span.start));
                seen.push(format!("end {} said {text}", before + span.end));
            }
        })
        .map_err(|error| error.offset)?;
        before += piece.len();
    }
    if feed.is_done() { Ok(seen) } else { Err(before as u64) }
}

#[test]
fn tells_names_values_and_lengths() {
    assert_eq!(
        events(&[r#"{"a\u0062":[-1.5e3,"\ud83d\ude00é\n"]}"#]).unwrap().join(", "),
        "Object 0, key ab, Array 11, Number 12, end 18 said 0, String 19, end 37 said 7, end 38 said 0, \
         end 39 said 0"
    );
}

#[test]
fn a_very_long_name_is_never_taken_for_a_short_one() {
    let document = format!(r#"{{"{}":1}}"#, "x".repeat(500));
    assert_eq!(events(&[&document]).unwrap()[1], "key ");
}

proptest! {
    #[test]
    fn both_readers_accept_the_same_documents(bytes in documents()) {
        let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(()) };
        let mut scanner = Scanner::new(&bytes).unwrap();
        let whole = scanner.skip().and_then(|_| scanner.end());
        prop_assert_eq!(events(&[text]).is_ok(), whole.is_ok());
    }

    #[test]
    fn any_split_tells_the_same(bytes in documents(), cut in any::<prop::sample::Index>()) {
        let Ok(text) = std::str::from_utf8(&bytes) else { return Ok(()) };
        let mut cut = cut.index(text.len() + 1);
        while !text.is_char_boundary(cut) {
            cut -= 1;
        }
        let (left, right) = text.split_at(cut);
        prop_assert_eq!(events(&[left, right]), events(&[text]));
    }
}
