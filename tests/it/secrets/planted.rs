//! Secrets with a mark on them, and the search for any part of any form of them.

use std::{
    collections::HashMap,
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine, prelude::*};

/// Characters in a row that count as a leak.
const PART: usize = 12;

type Part = [u8; PART];

/// What must be found nowhere, and what was found all the same.
pub struct Search {
    parts: HashMap<Part, (&'static str, String)>,
    /// Which hashes of three bytes begin a part: most places of a text are none.
    beginnings: Vec<bool>,
    found: Vec<String>,
    searched: usize,
}

impl Default for Search {
    fn default() -> Self {
        Self { parts: HashMap::new(), beginnings: vec![false; 1 << 16], found: Vec::new(), searched: 0 }
    }
}

impl Search {
    /// Looks for `secret` from now on: every 12 characters in a row of each of its forms.
    pub fn plant(&mut self, name: &'static str, secret: &str) {
        self.plant_bytes(name, secret.as_bytes());
        let json = serde_json::to_string(secret).expect("a string");
        self.plant_form(name, "JSON", json.trim_matches('"').as_bytes());
        self.plant_form(name, "JSON", json.trim_matches('"').replace('/', "\\/").as_bytes());
        let units = secret.encode_utf16().map(|unit| format!("\\u{unit:04x}")).collect::<Vec<_>>().concat();
        self.plant_form(name, "JSON", units.as_bytes());
        self.plant_form(name, "form", form(secret).as_bytes());
        self.plant_form(name, "percent", form(secret).replace('+', "%20").as_bytes());
    }

    /// The forms that any bytes have.
    pub fn plant_bytes(&mut self, name: &'static str, secret: &[u8]) {
        assert!(secret.len() >= 16, "{name} is too short to be looked for by parts");
        self.plant_form(name, "plain", secret);
        let hex = secret.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<_>>().concat();
        self.plant_form(name, "hex", hex.as_bytes());
        for lead in 0..3 {
            let shifted = [&b"\0\0"[..lead], secret].concat();
            // What the bytes before and behind it help to decide is not the secret's alone.
            let whole = (lead * 8).div_ceil(6)..shifted.len() * 8 / 6;
            for text in [BASE64_STANDARD_NO_PAD.encode(&shifted), BASE64_URL_SAFE_NO_PAD.encode(&shifted)] {
                self.plant_form(name, "base64", &text.as_bytes()[whole.clone()]);
            }
        }
    }

    fn plant_form(&mut self, name: &'static str, form: &str, text: &[u8]) {
        for part in text.to_ascii_lowercase().windows(PART) {
            let part: Part = part.try_into().expect("as long as asked for");
            self.beginnings[beginning(&part)] = true;
            self.parts.entry(part).or_insert_with(|| (name, form.to_owned()));
        }
    }

    /// Searches one place; letters match in either case.
    pub fn look(&mut self, place: &str, bytes: &[u8]) {
        self.searched += bytes.len();
        let folded = bytes.to_ascii_lowercase();
        for (at, part) in folded.windows(PART).enumerate() {
            if !self.beginnings[beginning(part)] {
                continue;
            }
            if let Some((name, form)) = part.try_into().ok().and_then(|part: Part| self.parts.get(&part)) {
                let around = &bytes[at.saturating_sub(60)..(at + 60).min(bytes.len())];
                let around = String::from_utf8_lossy(around).into_owned();
                self.found.push(format!("{name} ({form}) in {place}: …{around}…"));
                return;
            }
        }
    }

    /// Searches every file below `directory`.
    pub fn look_in_files(&mut self, directory: &Path) {
        for path in files_below(directory) {
            let bytes = fs::read(&path).expect("read a file");
            self.look(&path.display().to_string(), &bytes);
        }
    }

    /// Says how many bytes were searched.
    ///
    /// # Panics
    /// When anything was found.
    pub fn finish(self) -> usize {
        assert!(self.found.is_empty(), "{} places:\n{}", self.found.len(), self.found.join("\n"));
        self.searched
    }
}

fn beginning(part: &[u8]) -> usize {
    let [a, b, c] = [part[0], part[1], part[2]].map(usize::from);
    (a << 8 ^ b << 4 ^ c) & 0xffff
}

/// A secret as `application/x-www-form-urlencoded` has it.
pub fn form(secret: &str) -> String {
    url::form_urlencoded::byte_serialize(secret.as_bytes()).collect()
}

fn files_below(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).expect("list a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { files.extend(files_below(&path)) } else { files.push(path) }
    }
    files
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "sk-mark/Ab3+xY9=\"Qz7&Lm0pQrStUvWx";

    fn finds(text: &str) -> bool {
        let mut search = Search::default();
        search.plant("it", SECRET);
        search.look("here", text.as_bytes());
        !search.found.is_empty()
    }

    #[test]
    fn every_form_and_any_part_of_twelve_is_found() {
        let hex = SECRET.bytes().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().concat();
        for text in [
            SECRET.to_owned(),
            SECRET[3..15].to_owned(),
            SECRET.to_uppercase(),
            hex,
            form(SECRET),
            serde_json::to_string(SECRET).unwrap(),
            BASE64_STANDARD.encode(format!("Bearer {SECRET}")),
            BASE64_STANDARD.encode(format!("x{SECRET}y")),
            BASE64_URL_SAFE.encode(format!("xy{SECRET}y")),
        ] {
            assert!(finds(&format!("before {text} after")), "{text}");
        }
        assert!(!finds(&SECRET[3..14]));
    }
}
