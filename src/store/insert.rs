//! Inserts of many rows at once, in few sizes: preparing a statement costs more than running it,
//! so every connection prepares each text once and keeps it, and the texts themselves are kept too.

use std::sync::OnceLock;

use crate::store::tx::Open;

/// Rows of one insert. The widest, of 26 columns, stays below SQLite's 32 766 parameters and
/// Postgres's 65 535, and takes 320 KB in each SQLite connection that writes. Twice as many rows
/// take twice that, and SQLite more instructions for each, not fewer: its own small allocator has
/// room for the values of a dozen.
const SIZES: [usize; 5] = [128, 32, 8, 2, 1];

/// One of [`SIZES`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Size(usize);

/// `rows` in pieces of [`SIZES`], largest first.
pub(super) fn batches<T>(mut rows: &[T]) -> impl Iterator<Item = (Size, &[T])> {
    std::iter::from_fn(move || {
        let size = SIZES.iter().position(|&size| size <= rows.len())?;
        let (batch, rest) = rows.split_at(SIZES[size]);
        rows = rest;
        Some((Size(size), batch))
    })
}

/// An insert into a table, with a text for each size and database, made when it is first needed.
pub(super) struct Insert {
    table: &'static str,
    columns: &'static [&'static str],
    /// Columns that have the same value in every row, and the value.
    constants: &'static [(&'static str, &'static str)],
    /// What follows the rows.
    then: &'static str,
    /// Whether the transaction is given up when the statement fails.
    is_final: bool,
    texts: [Texts; 2],
}

type Texts = [OnceLock<String>; SIZES.len()];

impl Insert {
    /// Rows with these columns, each of them a parameter.
    pub(super) const fn into(table: &'static str, columns: &'static [&'static str]) -> Self {
        let texts = [const { [const { OnceLock::new() }; SIZES.len()] }; 2];
        Self { table, columns, constants: &[], then: "", is_final: false, texts }
    }

    /// And these columns, which every row has alike: no parameter is cheaper than any.
    pub(super) const fn with(mut self, constants: &'static [(&'static str, &'static str)]) -> Self {
        self.constants = constants;
        self
    }

    /// And this behind the rows.
    pub(super) const fn then(mut self, then: &'static str) -> Self {
        self.then = then;
        self
    }

    /// And the transaction is given up when this fails: then SQLite need not keep what it would take to
    /// undo the statement alone.
    pub(super) const fn or_give_up(mut self) -> Self {
        self.is_final = true;
        self
    }

    /// The statement for so many rows on the database that `open` is open on. Its parameters are
    /// the rows one after another, each in the order of the columns.
    pub(super) fn text(&'static self, open: &Open, size: Size) -> &'static str {
        let rows = SIZES[size.0];
        match open {
            Open::Postgres(_) => {
                self.texts[0][size.0].get_or_init(|| self.write("insert", rows, |n| format!("${n}")))
            }
            Open::Sqlite(_) => self.texts[1][size.0].get_or_init(|| {
                let insert = if self.is_final { "insert or fail" } else { "insert" };
                // By number, each would be looked up in a list of them all whenever the statement runs.
                self.write(insert, rows, |_| "?".to_owned())
            }),
        }
    }

    fn write(&self, insert: &str, rows: usize, placeholder: fn(usize) -> String) -> String {
        let Self { table, columns, constants, then, .. } = self;
        let row = |row: usize| {
            let bound = (1..=columns.len()).map(|n| placeholder(row * columns.len() + n));
            let constant = constants.iter().map(|(_, value)| (*value).to_owned());
            format!("({})", bound.chain(constant).collect::<Vec<_>>().join(","))
        };
        // Without spaces: a connection finds its prepared statement by a hash of all of this.
        let rows: Vec<String> = (0..rows).map(row).collect();
        let columns: Vec<&str> =
            columns.iter().copied().chain(constants.iter().map(|(name, _)| *name)).collect();
        format!("{insert} into {table} ({}) values {} {then}", columns.join(", "), rows.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_numbered_through_and_every_row_has_every_column() {
        static INSERT: Insert =
            Insert::into("t", &["a", "b"]).with(&[("c", "'x'")]).then("on conflict do nothing");
        assert_eq!(
            INSERT.write("insert", 2, |n| format!("${n}")),
            "insert into t (a, b, c) values ($1,$2,'x'),($3,$4,'x') on conflict do nothing"
        );
    }

    #[test]
    fn batches_are_of_the_sizes_and_hold_every_row_once() {
        let rows: Vec<usize> = (0..300).collect();
        let sizes: Vec<usize> = batches(&rows).map(|(_, batch)| batch.len()).collect();
        assert_eq!(sizes, [128, 128, 32, 8, 2, 2]);
        assert_eq!(batches(&rows).flat_map(|(_, batch)| batch).copied().collect::<Vec<_>>(), rows);
    }
}
