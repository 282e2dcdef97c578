//! From columns to domain values and back.

use serde::de::{
    DeserializeOwned, IntoDeserializer,
    value::{Error, StrDeserializer},
};

use crate::{domain::limits::Limits, store::StoreError};

/// A row being read, for errors that say which.
pub(super) struct Cell {
    table: &'static str,
    id: String,
}

impl Cell {
    pub(super) fn of(table: &'static str, id: &(impl ToString + ?Sized)) -> Self {
        Self { table, id: id.to_string() }
    }

    /// The error of a column that cannot be read.
    pub(super) fn bad(&self, column: &'static str) -> StoreError {
        StoreError::BadRow { table: self.table, column, id: self.id.clone() }
    }

    /// A variant by the name that `as_str` gives it.
    pub(super) fn variant<T: DeserializeOwned>(
        &self,
        column: &'static str,
        name: &str,
    ) -> Result<T, StoreError> {
        let deserializer: StrDeserializer<'_, Error> = name.into_deserializer();
        T::deserialize(deserializer).map_err(|_| self.bad(column))
    }

    /// A number that our types hold narrower than the column.
    pub(super) fn number<T: TryFrom<i64>>(&self, column: &'static str, value: i64) -> Result<T, StoreError> {
        T::try_from(value).map_err(|_| self.bad(column))
    }

    /// The same where there may be none.
    pub(super) fn maybe<T: TryFrom<i64>>(
        &self,
        column: &'static str,
        value: Option<i64>,
    ) -> Result<Option<T>, StoreError> {
        value.map(|value| self.number(column, value)).transpose()
    }

    /// The three columns of limits.
    pub(super) fn limits(
        &self,
        rpm: Option<i64>,
        tpm: Option<i64>,
        concurrency: Option<i64>,
    ) -> Result<Limits, StoreError> {
        Ok(Limits {
            rpm: self.maybe("rpm", rpm)?,
            tpm: self.maybe("tpm", tpm)?,
            concurrency: self.maybe("concurrency", concurrency)?,
        })
    }
}

/// A count as a column holds it. Counts beyond `i64` do not occur: saturates.
pub(super) fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// The columns of limits in the order rpm, tpm, concurrency.
pub(super) fn limit_columns(limits: &Limits) -> [Option<i64>; 3] {
    [limits.rpm.map(i64::from), limits.tpm.map(signed), limits.concurrency.map(i64::from)]
}
