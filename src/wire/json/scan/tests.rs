//! Tests of `scan`.

use proptest::prelude::*;
use serde_json::value::RawValue;

use super::*;

/// Documents, and the same with bytes changed, taken out or put in.
pub(in crate::wire::json) fn documents() -> impl Strategy<Value = Vec<u8>> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("true".to_owned()),
        Just("false".to_owned()),
        any::<i64>().prop_map(|n| n.to_string()),
        any::<f64>().prop_filter("finite", |n| n.is_finite()).prop_map(|n| format!("{n:e}")),
        any::<String>().prop_map(|s| serde_json::to_string(&s).unwrap_or_default()),
        "\"(\\\\u[0-9a-fA-F]{4}|[a-z漢😀]|\\\\[nrtbf/\"])*\"",
    ];
    let blank = "[ \t\r\n]{0,2}";
    let tree = leaf.prop_recursive(5, 40, 6, move |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..5), blank)
                .prop_map(|(items, w)| format!("[{w}{}{w}]", items.join(&format!("{w},{w}")))),
            (prop::collection::vec((any::<String>(), inner), 0..5), blank).prop_map(|(members, w)| {
                let members: Vec<_> = members
                    .iter()
                    .map(|(k, v)| format!("{}{w}:{w}{v}", serde_json::to_string(k).unwrap_or_default()))
                    .collect();
                format!("{{{w}{}{w}}}", members.join(&format!("{w},{w}")))
            }),
        ]
    });
    let change =
        (any::<prop::sample::Index>(), 0..3_u8, prop_oneof![any::<u8>(), Just(b'"'), Just(b','), Just(b'0')]);
    (tree, prop::collection::vec(change, 0..3)).prop_map(|(text, changes)| {
        let mut bytes = text.into_bytes();
        for (at, how, byte) in changes {
            let at = at.index(bytes.len().max(1));
            match how {
                0 if at < bytes.len() => bytes[at] = byte,
                1 if at < bytes.len() => drop(bytes.remove(at)),
                _ => bytes.insert(at.min(bytes.len()), byte),
            }
        }
        bytes
    })
}

fn check(document: &[u8]) -> Result<(), ScanError> {
    let mut scanner = Scanner::new(document)?;
    scanner.skip()?;
    scanner.end()
}

/// The same document read by visiting instead of skipping.
fn visit(scanner: &mut Scanner<'_>) -> Result<(), ScanError> {
    match scanner.kind()? {
        Kind::Object => scanner.object(|scanner, _| visit(scanner)).map(drop),
        Kind::Array => scanner.array(visit).map(drop),
        Kind::String => scanner.string().map(drop),
        Kind::Number | Kind::True | Kind::False | Kind::Null => scanner.skip().map(drop),
    }
}

#[test]
fn tells_where_and_why_a_document_is_wrong() {
    for (document, offset, reason) in [
        ("", 0, reason::EOF),
        ("{\"a\":1,}", 7, reason::KEY),
        ("{\"a\" 1}", 5, reason::COLON),
        ("[1 2]", 3, reason::COMMA),
        ("[1}", 2, reason::COMMA),
        ("01", 1, reason::TRAILING),
        ("-", 1, reason::NUMBER),
        ("1.", 2, reason::NUMBER),
        ("[nul]", 1, reason::LITERAL),
        ("\"a\nb\"", 2, reason::CONTROL),
        ("\"\\x\"", 2, reason::ESCAPE),
        ("\"\\u12G4\"", 5, reason::HEX),
        ("\"abc", 4, reason::EOF),
        ("{} {}", 3, reason::TRAILING),
        ("\u{feff}{}", 0, reason::VALUE),
    ] {
        assert_eq!(check(document.as_bytes()), Err(ScanError { offset, reason }), "{document}");
    }
    assert_eq!(check(b"\"\xff\""), Err(ScanError { offset: 1, reason: reason::UTF8 }));
}

#[test]
fn nesting_is_taken_to_the_limit_and_no_deeper() {
    let nested = |levels: usize| "[{\"a\":".repeat(levels / 2) + "1" + &"}]".repeat(levels / 2);
    for read in [check, |document: &[u8]| visit(&mut Scanner::new(document)?)] {
        assert_eq!(read(nested(128).as_bytes()), Ok(()));
        assert_eq!(read(nested(130).as_bytes()).unwrap_err().reason, reason::DEPTH);
    }
}

#[test]
fn a_member_can_be_cut_wherever_it_stands() {
    for (document, left) in [
        (r#"{"x":null}"#, r"{}"),
        (r#"{ "x" : null , "b":1}"#, r#"{ "b":1}"#),
        (r#"{"a":1 , "x":null }"#, r#"{"a":1  }"#),
        (r#"{"a":1,"x":{"y":[]},"b":2}"#, r#"{"a":1,"b":2}"#),
    ] {
        let mut scanner = Scanner::new(document.as_bytes()).unwrap();
        let mut cut = Span::default();
        scanner
            .object(|scanner, member| {
                let value = scanner.skip()?;
                if member.key.decode() == "x" {
                    cut = scanner.removal(&member, value);
                }
                Ok::<_, ScanError>(())
            })
            .unwrap();
        assert_eq!(format!("{}{}", &document[..cut.start], &document[cut.end..]), left);
    }
}

#[test]
fn an_escaped_name_is_the_name() {
    let mut names = Vec::new();
    Scanner::new(br#"{"mod\u0065l":1,"model":2}"#)
        .unwrap()
        .object(|scanner, member| {
            names.push(member.key.decode().into_owned());
            scanner.skip().map(drop)
        })
        .unwrap();
    assert_eq!(names, ["model", "model"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn accepts_exactly_what_serde_json_accepts(bytes in documents()) {
        let serde = serde_json::from_slice::<&RawValue>(&bytes).is_ok();
        prop_assert_eq!(check(&bytes).is_ok(), serde, "{}", String::from_utf8_lossy(&bytes));
        prop_assert_eq!(Scanner::new(&bytes).and_then(|mut s| visit(&mut s).and_then(|()| s.end())).is_ok(), serde);
    }
}
