//! The lookups of the request path go by index, also in a large table.

use super::{
    both::{self, OwnStore},
    fixtures::{self, added_tenant},
    raw::raw,
};

/// What is asked while requests wait, or for each page of a list.
const HOT: &[&str] = &[
    "select id from access_tokens where text_hash = HASH",
    "select id from access_tokens where id = ID",
    "select id from access_tokens where tenant_id = ID and id > ID order by id limit 10",
    "select id from tenants where name = 'x'",
    "select id from members where tenant_id = ID and subject = 'x'",
    "select id from grants where tenant_id = ID and subject_kind = 'member' and subject_id = ID order by id",
    "select balance_nanos from balances where tenant_id = ID",
    "EVENTS where usage_events.id = ID order by usage_events.id limit 1",
    "EVENTS where true and usage_events.id > ID order by usage_events.id limit 10",
    "EVENTS where true and usage_events.tenant_id = ID and usage_events.id > ID
        order by usage_events.id limit 10",
    "select event_id, route_id from attempts left join usage_upstreams on usage_upstreams.id = upstream_id
        where event_id in (ID, ID) order by event_id, n",
    "select id from ledger_entries where tenant_id = ID and id > ID order by id limit 10",
    OF_EVENT,
    "select id from access_tokens where revoked_at is not null and revoked_at >= 'AT'",
];

/// Events with their callers and upstreams.
const EVENTS: &str = "select usage_events.id, model, route_id from usage_events
    left join usage_callers on usage_callers.id = usage_events.caller_id
    left join usage_upstreams on usage_upstreams.id = usage_events.upstream_id";

/// A charge by its own id, other entries by an index that charges are not in.
const OF_EVENT: &str = "select id from ledger_entries
    where tenant_id = ID and kind = 'refund' and id in (
        select id from ledger_entries where id = ID
        union all
        select id from ledger_entries where event_id = ID and event_id <> id
    )
    order by id limit 10";

/// Thousands of rows in the tables that grow.
async fn fill(store: &OwnStore) {
    let tenant = added_tenant(store, "t").await;
    let mut tx = store.begin().await.unwrap();
    for n in 0..4_000u16 {
        let mut hash = [0; 32];
        hash[..2].copy_from_slice(&n.to_be_bytes());
        tx.add_access_token(&fixtures::token(&tenant), Some(&hash)).await.unwrap();
    }
    for n in 0..1_000 {
        tx.add_member(&fixtures::member(&tenant, &format!("m{n}"))).await.unwrap();
        tx.add_tenant(&fixtures::tenant(&format!("t{n}"))).await.unwrap();
    }
    tx.commit().await.unwrap();
    // Half of them of one tenant, whose every entry must not be looked at for one event's.
    let payer = |n: u32| if n.is_multiple_of(2) { tenant.id } else { fixtures::tenant("any").id };
    let events: Vec<_> = (0..4_000).map(|n| fixtures::event(payer(n), 1)).collect();
    store.record_events(&events).await.unwrap();
}

#[tokio::test]
async fn postgres_scans_no_table_for_a_hot_lookup() {
    let store = both::postgres().await;
    fill(&store).await;
    raw(&store, "analyze").await;
    for query in HOT {
        let query = query
            .replace("EVENTS", EVENTS)
            .replace("HASH", "decode(repeat('01', 32), 'hex')")
            .replace("ID", "cast('019adf2e-0000-7000-8000-000000000000' as uuid)")
            .replace("AT", "2026-11-30T00:00:00Z");
        let plan = raw(&store, &format!("explain {query}")).await.join("\n");
        // Partitions and tables that a test leaves empty cost nothing to scan.
        let large = [
            "on access_tokens",
            "on members",
            "on tenants",
            "on usage_events_default",
            "on usage_callers",
            "on usage_upstreams",
            "on ledger_entries",
        ];
        let scans =
            plan.lines().any(|line| line.contains("Seq Scan") && large.iter().any(|on| line.contains(on)));
        assert!(!scans, "{query}\n{plan}");
        assert!(!query.contains("usage_events") || !plan.contains("Sort  ("), "sorted: {query}\n{plan}");
        assert!(plan.contains("Index") || plan.contains("on grants"), "{query}\n{plan}");
    }
}

#[tokio::test]
async fn sqlite_scans_no_table_for_a_hot_lookup() {
    let store = both::sqlite().await;
    fill(&store).await;
    for query in HOT {
        let query = query
            .replace("EVENTS", EVENTS)
            .replace("HASH", "x'01'")
            .replace("ID", "x'02'")
            .replace("AT", "2026-11-30T00:00:00Z");
        let plan = raw(&store, &format!("explain query plan {query}")).await.join("\n");
        assert!(plan.contains("SEARCH") && !plan.contains("SCAN"), "{query}\n{plan}");
        assert!(!query.contains("usage_events") || !plan.contains("TEMP"), "sorted: {query}\n{plan}");
        let of_tenant = plan.contains("ledger_entries_by_tenant (tenant_id=? AND id=?)");
        assert!(of_tenant || !query.contains("event_id <> id"), "all of a tenant's entries: {plan}");
    }
}

#[tokio::test]
async fn sqlite_is_compiled_as_dot_cargo_says() {
    let options = raw(&both::sqlite().await, "select compile_options from pragma_compile_options").await;
    assert!(options.iter().any(|option| option == "DEFAULT_MEMSTATUS=0"), "{options:?}");
    assert!(!options.iter().any(|option| option == "ENABLE_MEMORY_MANAGEMENT"), "{options:?}");
}
