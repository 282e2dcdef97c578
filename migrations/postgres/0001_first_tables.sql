-- Everything of the first release. Text shared with migrations/sqlite/0001 but for the types and
-- for the partitions of usage_events and attempts.

-- One row per kind of change; a replica whose figure is lower loads again.
create table versions (
    name text primary key,
    version bigint not null
);
insert into versions (name, version) values ('catalog', 1), ('access', 1);

create table providers (
    id uuid primary key,
    name text not null,
    base_url text not null,
    format text not null,
    auth_kind text not null,
    auth_name text,
    tier text not null,
    transport text not null,
    headers jsonb not null,
    timeouts jsonb not null,
    enabled boolean not null,
    version bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint providers_name_unique unique (name)
);

create table tenants (
    id uuid primary key,
    name text not null,
    rpm bigint,
    tpm bigint,
    concurrency bigint,
    billing text not null,
    enabled boolean not null,
    version bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint tenants_name_unique unique (name)
);

create table keys (
    id uuid primary key,
    provider_id uuid not null references providers (id),
    tenant_id uuid references tenants (id),
    label text not null,
    secret bytea not null,
    fingerprint text not null,
    priority bigint not null,
    weight bigint not null,
    rpm bigint,
    tpm bigint,
    concurrency bigint,
    base_url text,
    params jsonb not null,
    state text not null,
    version bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint keys_label_unique unique (provider_id, label),
    constraint keys_fingerprint_unique unique (provider_id, fingerprint)
);
create index keys_by_tenant on keys (tenant_id, id);

create table models (
    id uuid primary key,
    name text not null,
    capabilities jsonb not null,
    context_tokens bigint,
    max_output_tokens bigint,
    prices jsonb not null,
    enabled boolean not null,
    version bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint models_name_unique unique (name)
);

create table routes (
    id uuid primary key,
    model_id uuid not null references models (id),
    provider_id uuid not null references providers (id),
    upstream_model text not null,
    priority bigint not null,
    weight bigint not null,
    cost jsonb not null,
    capabilities jsonb,
    enabled boolean not null,
    version bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint routes_upstream_model_unique unique (model_id, provider_id, upstream_model)
);
create index routes_by_provider on routes (provider_id, id);

create table members (
    id uuid primary key,
    tenant_id uuid not null references tenants (id) on delete cascade,
    subject text not null,
    role text not null,
    token_generation bigint not null,
    rpm bigint,
    tpm bigint,
    concurrency bigint,
    enabled boolean not null,
    version bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint members_subject_unique unique (tenant_id, subject)
);

-- text_hash is SHA-256 of an opaque text; a JWT has none.
create table access_tokens (
    id uuid primary key,
    tenant_id uuid references tenants (id) on delete cascade,
    member_id uuid references members (id) on delete cascade,
    name text not null,
    kind text not null,
    role text not null,
    grants jsonb,
    rpm bigint,
    tpm bigint,
    concurrency bigint,
    text_hash bytea,
    expires_at timestamptz,
    revoked_at timestamptz,
    created_at timestamptz not null,
    constraint access_tokens_text_hash_unique unique (text_hash)
);
create index access_tokens_by_tenant on access_tokens (tenant_id, id);
create index access_tokens_by_member on access_tokens (member_id, id);
create index access_tokens_by_revocation on access_tokens (revoked_at) where revoked_at is not null;

-- subject_id is the tenant's, member's or access token's id, as subject_kind says.
create table grants (
    id uuid primary key,
    tenant_id uuid not null references tenants (id) on delete cascade,
    subject_kind text not null,
    subject_id uuid not null,
    pattern text not null,
    effect text not null,
    version bigint not null,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    constraint grants_pattern_unique unique (tenant_id, subject_kind, subject_id, pattern)
);

create table signing_keys (
    kid text primary key,
    algorithm text not null,
    public_key bytea not null,
    private_key bytea not null,
    created_at timestamptz not null,
    retires_at timestamptz
);

create table vault_keys (
    id bigint primary key,
    sealed bytea not null,
    active boolean not null,
    created_at timestamptz not null
);

-- JWTs of trusted issuers that are no longer taken; our own stand in access_tokens.
create table revocations (
    issuer text not null,
    jti text not null,
    tenant_id uuid,
    revoked_at timestamptz not null,
    expires_at timestamptz not null,
    primary key (issuer, jti)
);
create index revocations_by_expiry on revocations (expires_at);

create table idempotent_requests (
    principal text not null,
    route text not null,
    idempotency_key text not null,
    request_hash bytea not null,
    status bigint,
    body bytea,
    created_at timestamptz not null,
    primary key (principal, route, idempotency_key)
);
create index idempotent_requests_by_age on idempotent_requests (created_at);

-- Facts about the deployment; each value is a JSON object.
create table settings (
    name text primary key,
    value jsonb not null,
    updated_at timestamptz not null
);

create table replicas (
    id uuid primary key,
    build text not null,
    started_at timestamptz not null,
    heartbeat_at timestamptz not null,
    journal_records bigint not null,
    journal_bytes bigint not null
);

-- Who asked for what, and where it came in: the part of an event that repeats from event to event. The
-- id is computed from the other columns, so that every replica arrives at the same one; no row is ever
-- changed. No reference leaves this table or the next: what they name may be removed before them.
create table usage_callers (
    id uuid primary key,
    tenant_id uuid not null,
    member_id uuid,
    token_id uuid not null,
    model_id uuid not null,
    model text not null,
    format text not null,
    stream boolean not null,
    replica_id uuid not null
);

-- What served an attempt; the id is computed in the same way.
create table usage_upstreams (
    id uuid primary key,
    route_id uuid not null,
    provider_id uuid not null,
    key_id uuid not null,
    upstream_model text not null
);

-- The last attempt, which nearly always is the only one, stands in the row itself: upstream_id and what
-- follows, where there was one; it was sent attempt_after_us after started_at. tenant_id is its caller's
-- too, and here for the index. Callers and upstreams are written before the events that name them;
-- nothing enforces it, which would cost a look at both for every event.
create table usage_events (
    id uuid primary key,
    tenant_id uuid not null,
    caller_id uuid not null,
    outcome text not null,
    status bigint not null,
    input_tokens bigint not null,
    cache_read_tokens bigint not null,
    cache_write_5m_tokens bigint not null,
    cache_write_1h_tokens bigint not null,
    output_tokens bigint not null,
    reasoning_tokens bigint not null,
    audio_input_tokens bigint not null,
    audio_output_tokens bigint not null,
    images bigint not null,
    requests bigint not null,
    usage_source text not null,
    charge_nanos bigint not null,
    cost_nanos bigint not null,
    started_at timestamptz not null,
    first_content_ms bigint,
    duration_ms bigint not null,
    upstream_id uuid,
    attempt_after_us bigint,
    attempt_duration_ms bigint,
    attempt_status bigint,
    attempt_class text
) partition by range (id);
create table usage_events_default partition of usage_events default;
create index usage_events_by_tenant on usage_events (tenant_id, id);

-- The attempts of an event before its last, in the order of n.
create table attempts (
    event_id uuid not null,
    n bigint not null,
    upstream_id uuid not null,
    started_at timestamptz not null,
    duration_ms bigint not null,
    status bigint,
    class text,
    primary key (event_id, n)
) partition by range (event_id);
create table attempts_default partition of attempts default;

-- Append-only. A charge has the id of its event for its own, which books it once, even after the
-- event's partition is gone, and finds it without an index of its own; a refund names the event too.
create table ledger_entries (
    id uuid primary key,
    tenant_id uuid not null,
    kind text not null,
    amount_nanos bigint not null,
    event_id uuid,
    note text not null,
    actor text not null,
    created_at timestamptz not null
);
create index ledger_entries_by_event on ledger_entries (event_id) where event_id <> id;
create index ledger_entries_by_tenant on ledger_entries (tenant_id, id);

create table balances (
    tenant_id uuid primary key,
    balance_nanos bigint not null,
    updated_at timestamptz not null
);
