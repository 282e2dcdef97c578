//! UTF-8 from bytes cut anywhere.

/// Gives bytes on as text, holding back a character whose end has not come yet.
#[derive(Debug, Default)]
pub struct Utf8Gate {
    held: [u8; 4],
    len: usize,
}

/// Bytes that are no UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NotUtf8;

impl Utf8Gate {
    /// Whether a character lacks its end.
    #[must_use]
    pub const fn holds(&self) -> bool {
        self.len > 0
    }

    /// Calls `on_piece` with the text that is whole, in order; the valid text before bad bytes comes first.
    pub fn push<E: From<NotUtf8>>(
        &mut self,
        mut chunk: &[u8],
        mut on_piece: impl FnMut(&str) -> Result<(), E>,
    ) -> Result<(), E> {
        while self.len > 0 {
            let Some((&byte, rest)) = chunk.split_first() else { return Ok(()) };
            self.held[self.len] = byte;
            self.len += 1;
            chunk = rest;
            match std::str::from_utf8(&self.held[..self.len]) {
                Ok(character) => {
                    on_piece(character)?;
                    self.len = 0;
                }
                Err(error) if error.error_len().is_some() => return Err(NotUtf8.into()),
                Err(_) => {}
            }
        }
        let (text, bad) = match std::str::from_utf8(chunk) {
            Ok(text) => (text, None),
            Err(error) => {
                let whole = std::str::from_utf8(&chunk[..error.valid_up_to()]);
                (whole.unwrap_or_default(), Some(error))
            }
        };
        if !text.is_empty() {
            on_piece(text)?;
        }
        match bad {
            None => Ok(()),
            Some(error) if error.error_len().is_some() => Err(NotUtf8.into()),
            Some(error) => {
                let rest = &chunk[error.valid_up_to()..];
                self.held[..rest.len()].copy_from_slice(rest);
                self.len = rest.len();
                Ok(())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(pieces: &[&[u8]]) -> (String, bool) {
        let mut gate = Utf8Gate::default();
        let mut out = String::new();
        for piece in pieces {
            let pushed = gate.push::<NotUtf8>(piece, |text| {
                out.push_str(text);
                Ok(())
            });
            if pushed.is_err() {
                return (out, false);
            }
        }
        (out, !gate.holds())
    }

    #[test]
    fn characters_cut_anywhere_come_out_whole() {
        let text = "aé漢字😀z";
        for left in 0..=text.len() {
            for right in left..=text.len() {
                let bytes = text.as_bytes();
                let pieces = [&bytes[..left], &bytes[left..right], &bytes[right..]];
                assert_eq!(through(&pieces), (text.to_owned(), true));
            }
        }
    }

    #[test]
    fn bad_bytes_fail_at_any_split_after_the_good_ones() {
        for bad in [&b"ab\xffcd"[..], b"ab\xe6\xbcz", b"ab\xed\xa0\x80", b"ab\xf5\x80\x80\x80", b"ab\xc0\x80"]
        {
            for cut in 0..=bad.len() {
                assert_eq!(through(&[&bad[..cut], &bad[cut..]]), ("ab".to_owned(), false), "{bad:?} {cut}");
            }
        }
        assert_eq!(through(&[b"ab\xe6\xbc"]), ("ab".to_owned(), false));
    }
}
