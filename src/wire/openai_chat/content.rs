//! What a request carries: how much text, and what it needs of a model.

use super::request::Needs;
use crate::wire::json::{Kind, ScanError, Scanner};

/// What was found in the request so far.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// Bytes of text; inline media, which providers count by size or length and not by bytes, left out.
    pub(super) bytes: u64,
    pub(super) needs: Needs,
}

impl Content {
    /// Reads `messages`.
    pub(super) fn messages(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ScanError> {
        scanner
            .array(|scanner| {
                if scanner.kind()? != Kind::Object {
                    return self.text(scanner);
                }
                scanner
                    .object(|scanner, member| match &*member.key.decode() {
                        "content" if scanner.kind()? == Kind::Array => {
                            scanner.array(|scanner| self.part(scanner)).map(drop)
                        }
                        _ => self.text(scanner),
                    })
                    .map(drop)
            })
            .map(drop)
    }

    /// One part of a message. The member that carries the medium tells its kind; the `type` beside it
    /// says the same.
    fn part(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ScanError> {
        if scanner.kind()? != Kind::Object {
            return self.text(scanner);
        }
        scanner
            .object(|scanner, member| {
                let need = match &*member.key.decode() {
                    "image_url" => &mut self.needs.images,
                    "input_audio" => &mut self.needs.audio,
                    "video_url" => &mut self.needs.video,
                    "file" => &mut self.needs.files,
                    "type" | "cache_control" => return scanner.skip().map(drop),
                    _ => return self.text(scanner),
                };
                *need = true;
                scanner.skip().map(drop)
            })
            .map(drop)
    }

    /// Counts a value as text: a string by what it says, anything else as written.
    fn text(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ScanError> {
        let bytes = match scanner.kind()? {
            Kind::String => scanner.string()?.text_bytes,
            _ => scanner.skip()?.len(),
        };
        self.bytes += bytes as u64;
        Ok(())
    }

    /// Reads `tools` or `functions`.
    pub(super) fn tools(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ScanError> {
        if scanner.kind()? != Kind::Array {
            return scanner.skip().map(drop);
        }
        let declared = scanner.array(|scanner| {
            self.needs.tools = true;
            scanner.skip().map(drop)
        })?;
        self.bytes += declared.len() as u64;
        Ok(())
    }

    /// Reads `response_format`.
    pub(super) fn response_format(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ScanError> {
        if scanner.kind()? != Kind::Object {
            return scanner.skip().map(drop);
        }
        let format = scanner.object(|scanner, member| {
            if member.key.decode() == "type" && scanner.kind()? == Kind::String {
                self.needs.json_schema |= scanner.string()?.decode() == "json_schema";
                return Ok(());
            }
            scanner.skip().map(drop)
        })?;
        self.bytes += format.len() as u64;
        Ok(())
    }

    /// Reads `modalities`.
    pub(super) fn modalities(&mut self, scanner: &mut Scanner<'_>) -> Result<(), ScanError> {
        if scanner.kind()? != Kind::Array {
            return scanner.skip().map(drop);
        }
        scanner
            .array(|scanner| {
                let value = scanner.skip()?;
                self.needs.audio |= scanner.slice(value) == "\"audio\"";
                Ok(())
            })
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use crate::wire::openai_chat::{Head, Needs};

    fn read(members: &str) -> Head {
        Head::read(format!(r#"{{"model":"m",{members}}}"#).as_bytes()).unwrap()
    }

    fn part(part: &str) -> Head {
        read(&format!(r#""messages":[{{"role":"user","content":[{{"type":"text","text":"hi"}},{part}]}}]"#))
    }

    #[test]
    fn needs_are_told_by_what_the_request_carries() {
        let none = Needs::default();
        for (head, needs) in [
            (part(r#"{"type":"text","text":"image_url"}"#), none),
            (part(r#"{"type":"image_url","image_url":{"url":"x"}}"#), Needs { images: true, ..none }),
            (part(r#"{"type":"input_audio","input_audio":{}}"#), Needs { audio: true, ..none }),
            (part(r#"{"type":"file","file":{"file_id":"f"}}"#), Needs { files: true, ..none }),
            (part(r#"{"type":"video_url","video_url":{}}"#), Needs { video: true, ..none }),
            (read(r#""messages":[],"tools":[{}]"#), Needs { tools: true, ..none }),
            (read(r#""messages":[],"functions":[{}]"#), Needs { tools: true, ..none }),
            (read(r#""messages":[],"tools":[]"#), none),
            (
                read(r#""messages":[],"response_format":{"json_schema":{},"type":"json_schema"}"#),
                Needs { json_schema: true, ..none },
            ),
            (read(r#""messages":[],"response_format":{"type":"json_object"}"#), none),
            (read(r#""messages":[],"reasoning_effort":"low""#), Needs { reasoning: true, ..none }),
            (read(r#""messages":[],"reasoning_effort":"none""#), none),
            (read(r#""messages":[],"modalities":["text","audio"]"#), Needs { audio: true, ..none }),
            (read(r#""messages":[],"web_search_options":{}"#), Needs { search: true, ..none }),
        ] {
            assert_eq!(head.needs, needs);
        }
    }

    #[test]
    fn text_counts_and_inline_media_does_not() {
        assert_eq!(read(r#""messages":[{"role":"user","content":"h\u00e9"}]"#).input_bytes, 4 + 3);
        let image = format!(r#"{{"image_url":{{"url":"data:image/png;base64,{}"}}}}"#, "A".repeat(1000));
        assert_eq!(part(&image).input_bytes, 4 + 2);
        assert_eq!(read(r#""messages":[],"tools":[{"a":1}]"#).input_bytes, 9);
    }
}
