//! Monthly partitions of usage events and attempts, in Postgres alone. An event without a
//! partition of its month lands in the default one: nothing is ever refused for want of one.

use chrono::{DateTime, Datelike, Months, NaiveDate, Utc};
use sqlx::{AssertSqlSafe, Postgres};
use uuid::Uuid;

use crate::{
    domain::clock::Timestamp,
    store::{Store, StoreError, db::Held, events::first_id_at, tx::Open},
};

/// This month and as many after it.
const AHEAD: u32 = 2;
/// Any number that nothing else locks; `tollway2` in ASCII.
const LOCK: i64 = 0x746f_6c6c_7761_7932;

/// What came of a look at the partitions.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PartitionReport {
    /// Partitions made.
    pub made: Vec<String>,
    /// Partitions not made because the default one has rows of their month; those stay there.
    pub blocked: Vec<String>,
}

/// A month's range of ids.
struct Month {
    suffix: String,
    from: Uuid,
    to: Uuid,
}

impl Store {
    /// Makes the partitions of this month and the next two where they are missing; call it at
    /// start and daily. Any number of replicas may. Nothing to do in SQLite.
    ///
    /// # Errors
    /// [`StoreError::Unavailable`] when the tables were in use for too long: call again later.
    pub async fn ensure_partitions(&self, now: Timestamp) -> Result<PartitionReport, StoreError> {
        let mut report = PartitionReport::default();
        if !self.is_shared() {
            return Ok(report);
        }
        let mut tx = self.begin().await?;
        let Open::Postgres(held) = &mut tx.open else {
            return Ok(report);
        };
        // Whoever waits for the tables makes every recorder wait behind: rather give up.
        run(held, "set local lock_timeout = '2s'".to_owned()).await?;
        run(held, format!("select pg_advisory_xact_lock({LOCK})")).await?;
        for month in (0..=AHEAD).filter_map(|ahead| month(now.to_utc(), ahead)) {
            for (table, id) in [("usage_events", "id"), ("attempts", "event_id")] {
                add_partition(held, table, id, &month, &mut report).await?;
            }
        }
        tx.commit().await?;
        Ok(report)
    }
}

async fn add_partition(
    held: &mut Held<Postgres>,
    table: &str,
    id: &str,
    month: &Month,
    report: &mut PartitionReport,
) -> Result<(), StoreError> {
    let Month { suffix, from, to } = month;
    let name = format!("{table}_{suffix}");
    if ask(held, format!("select to_regclass('{name}') is not null")).await? {
        return Ok(());
    }
    let strays =
        format!("select exists (select 1 from {table}_default where {id} >= '{from}' and {id} < '{to}')");
    if ask(held, strays).await? {
        report.blocked.push(name);
        return Ok(());
    }
    run(held, format!("create table {name} partition of {table} for values from ('{from}') to ('{to}')"))
        .await?;
    report.made.push(name);
    Ok(())
}

async fn run(held: &mut Held<Postgres>, sql: String) -> Result<(), StoreError> {
    writing!(@on held, conn => sqlx::raw_sql(AssertSqlSafe(sql)).execute(conn)).map(|_| ())
}

async fn ask(held: &mut Held<Postgres>, sql: String) -> Result<bool, StoreError> {
    writing!(@on held, conn => sqlx::query_scalar(AssertSqlSafe(sql)).persistent(false).fetch_one(conn))
}

/// The month `ahead` of `now`'s; none beyond the calendar.
fn month(now: DateTime<Utc>, ahead: u32) -> Option<Month> {
    let first = now.date_naive().with_day(1)?.checked_add_months(Months::new(ahead))?;
    let next = first.checked_add_months(Months::new(1))?;
    Some(Month {
        suffix: first.format("%Y_%m").to_string(),
        from: first_id_of(first)?,
        to: first_id_of(next)?,
    })
}

fn first_id_of(day: NaiveDate) -> Option<Uuid> {
    Some(first_id_at(day.and_hms_opt(0, 0, 0)?.and_utc().into()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::ids::RequestId;

    #[test]
    fn a_month_holds_the_ids_made_in_it_and_no_others() {
        let at = |text: &str| Timestamp::from(text.parse::<DateTime<Utc>>().unwrap());
        let december = month(at("2026-11-30T23:59:59Z").to_utc(), 1).unwrap();
        assert_eq!(december.suffix, "2026_12");
        let holds = |text, random| {
            let id = RequestId::generate(at(text), random).uuid();
            december.from <= id && id < december.to
        };
        assert!(holds("2026-12-01T00:00:00Z", [0; 10]) && holds("2026-12-31T23:59:59.999Z", [255; 10]));
        assert!(!holds("2026-11-30T23:59:59.999Z", [255; 10]) && !holds("2027-01-01T00:00:00Z", [0; 10]));
    }
}
