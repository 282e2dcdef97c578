-- Everything of the first release. Text shared with migrations/postgres/0001 but for the types
-- (uuid: blob of 16 bytes; timestamptz: RFC 3339 in UTC; jsonb: text) and for the partitions.

-- One row per kind of change; a replica whose figure is lower loads again.
create table versions (
    name text primary key,
    version integer not null
) strict, without rowid;
insert into versions (name, version) values ('catalog', 1), ('access', 1);

create table providers (
    id blob primary key,
    name text not null,
    base_url text not null,
    format text not null,
    auth_kind text not null,
    auth_name text,
    tier text not null,
    transport text not null,
    headers text not null,
    timeouts text not null,
    enabled integer not null,
    version integer not null,
    created_at text not null,
    updated_at text not null,
    constraint providers_name_unique unique (name)
) strict, without rowid;

create table tenants (
    id blob primary key,
    name text not null,
    rpm integer,
    tpm integer,
    concurrency integer,
    billing text not null,
    enabled integer not null,
    version integer not null,
    created_at text not null,
    updated_at text not null,
    constraint tenants_name_unique unique (name)
) strict, without rowid;

create table keys (
    id blob primary key,
    provider_id blob not null references providers (id),
    tenant_id blob references tenants (id),
    label text not null,
    secret blob not null,
    fingerprint text not null,
    priority integer not null,
    weight integer not null,
    rpm integer,
    tpm integer,
    concurrency integer,
    base_url text,
    params text not null,
    state text not null,
    version integer not null,
    created_at text not null,
    updated_at text not null,
    constraint keys_label_unique unique (provider_id, label),
    constraint keys_fingerprint_unique unique (provider_id, fingerprint)
) strict, without rowid;
create index keys_by_tenant on keys (tenant_id, id);

create table models (
    id blob primary key,
    name text not null,
    capabilities text not null,
    context_tokens integer,
    max_output_tokens integer,
    prices text not null,
    enabled integer not null,
    version integer not null,
    created_at text not null,
    updated_at text not null,
    constraint models_name_unique unique (name)
) strict, without rowid;

create table routes (
    id blob primary key,
    model_id blob not null references models (id),
    provider_id blob not null references providers (id),
    upstream_model text not null,
    priority integer not null,
    weight integer not null,
    cost text not null,
    capabilities text,
    enabled integer not null,
    version integer not null,
    created_at text not null,
    updated_at text not null,
    constraint routes_upstream_model_unique unique (model_id, provider_id, upstream_model)
) strict, without rowid;
create index routes_by_provider on routes (provider_id, id);

create table members (
    id blob primary key,
    tenant_id blob not null references tenants (id) on delete cascade,
    subject text not null,
    role text not null,
    token_generation integer not null,
    rpm integer,
    tpm integer,
    concurrency integer,
    enabled integer not null,
    version integer not null,
    created_at text not null,
    updated_at text not null,
    constraint members_subject_unique unique (tenant_id, subject)
) strict, without rowid;

-- text_hash is SHA-256 of an opaque text; a JWT has none.
create table access_tokens (
    id blob primary key,
    tenant_id blob references tenants (id) on delete cascade,
    member_id blob references members (id) on delete cascade,
    name text not null,
    kind text not null,
    role text not null,
    grants text,
    rpm integer,
    tpm integer,
    concurrency integer,
    text_hash blob,
    expires_at text,
    revoked_at text,
    created_at text not null,
    constraint access_tokens_text_hash_unique unique (text_hash)
) strict, without rowid;
create index access_tokens_by_tenant on access_tokens (tenant_id, id);
create index access_tokens_by_member on access_tokens (member_id, id);
create index access_tokens_by_revocation on access_tokens (revoked_at) where revoked_at is not null;

-- subject_id is the tenant's, member's or access token's id, as subject_kind says.
create table grants (
    id blob primary key,
    tenant_id blob not null references tenants (id) on delete cascade,
    subject_kind text not null,
    subject_id blob not null,
    pattern text not null,
    effect text not null,
    version integer not null,
    created_at text not null,
    updated_at text not null,
    constraint grants_pattern_unique unique (tenant_id, subject_kind, subject_id, pattern)
) strict, without rowid;

create table signing_keys (
    kid text primary key,
    algorithm text not null,
    public_key blob not null,
    private_key blob not null,
    created_at text not null,
    retires_at text
) strict, without rowid;

create table vault_keys (
    id integer primary key,
    sealed blob not null,
    active integer not null,
    created_at text not null
) strict, without rowid;

-- JWTs of trusted issuers that are no longer taken; our own stand in access_tokens.
create table revocations (
    issuer text not null,
    jti text not null,
    tenant_id blob,
    revoked_at text not null,
    expires_at text not null,
    primary key (issuer, jti)
) strict, without rowid;
create index revocations_by_expiry on revocations (expires_at);

create table idempotent_requests (
    principal text not null,
    route text not null,
    idempotency_key text not null,
    request_hash blob not null,
    status integer,
    body blob,
    created_at text not null,
    primary key (principal, route, idempotency_key)
) strict, without rowid;
create index idempotent_requests_by_age on idempotent_requests (created_at);

-- Facts about the deployment; each value is a JSON object.
create table settings (
    name text primary key,
    value text not null,
    updated_at text not null
) strict, without rowid;

create table replicas (
    id blob primary key,
    build text not null,
    started_at text not null,
    heartbeat_at text not null,
    journal_records integer not null,
    journal_bytes integer not null
) strict, without rowid;

-- Who asked for what, and where it came in: the part of an event that repeats from event to event. The
-- id is computed from the other columns, so that every replica arrives at the same one; no row is ever
-- changed. No reference leaves this table or the next: what they name may be removed before them.
create table usage_callers (
    id blob primary key,
    tenant_id blob not null,
    member_id blob,
    token_id blob not null,
    model_id blob not null,
    model text not null,
    format text not null,
    stream integer not null,
    replica_id blob not null
) strict, without rowid;

-- What served an attempt; the id is computed in the same way.
create table usage_upstreams (
    id blob primary key,
    route_id blob not null,
    provider_id blob not null,
    key_id blob not null,
    upstream_model text not null
) strict, without rowid;

-- The last attempt, which nearly always is the only one, stands in the row itself: upstream_id and what
-- follows, where there was one; it was sent attempt_after_us after started_at. tenant_id is its caller's
-- too, and here for the index. Callers and upstreams are written before the events that name them;
-- nothing enforces it, which would cost a look at both for every event.
create table usage_events (
    id blob primary key,
    tenant_id blob not null,
    caller_id blob not null,
    outcome text not null,
    status integer not null,
    input_tokens integer not null,
    cache_read_tokens integer not null,
    cache_write_5m_tokens integer not null,
    cache_write_1h_tokens integer not null,
    output_tokens integer not null,
    reasoning_tokens integer not null,
    audio_input_tokens integer not null,
    audio_output_tokens integer not null,
    images integer not null,
    requests integer not null,
    usage_source text not null,
    charge_nanos integer not null,
    cost_nanos integer not null,
    started_at text not null,
    first_content_ms integer,
    duration_ms integer not null,
    upstream_id blob,
    attempt_after_us integer,
    attempt_duration_ms integer,
    attempt_status integer,
    attempt_class text
) strict, without rowid;
create index usage_events_by_tenant on usage_events (tenant_id, id);

-- The attempts of an event before its last, in the order of n.
create table attempts (
    event_id blob not null,
    n integer not null,
    upstream_id blob not null,
    started_at text not null,
    duration_ms integer not null,
    status integer,
    class text,
    primary key (event_id, n)
) strict, without rowid;

-- Append-only. A charge has the id of its event for its own, which books it once, even after the
-- event's partition is gone, and finds it without an index of its own; a refund names the event too.
create table ledger_entries (
    id blob primary key,
    tenant_id blob not null,
    kind text not null,
    amount_nanos integer not null,
    event_id blob,
    note text not null,
    actor text not null,
    created_at text not null
) strict, without rowid;
create index ledger_entries_by_event on ledger_entries (event_id) where event_id <> id;
create index ledger_entries_by_tenant on ledger_entries (tenant_id, id);

create table balances (
    tenant_id blob primary key,
    balance_nanos integer not null,
    updated_at text not null
) strict, without rowid;
