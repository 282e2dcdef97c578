//! Whatever goes wrong, no secret is told: not in an answer, a log line, a metric, a file or a table.

mod echo;
mod planted;

use std::{io::Read, process::Stdio, time::Duration};

use base64::{Engine, prelude::*};
use futures_util::StreamExt;
use jsonwebtoken::{Algorithm, EncodingKey, Header};
use reqwest::Method;
use serde_json::{Value, json};
use sqlx::{Connection, PgConnection};
use tollway::{
    domain::{
        ids::TenantId,
        provider::{AuthStyle, Transport},
    },
    identity::TokenForm,
};

use self::planted::Search;
use crate::harness::{
    client::{Answer, RawClient},
    eventually, is_quick,
    scene::Scene,
    server::{Server, Setup},
    services::{TestDatabase, migrated_database, start_redis},
    upstream::{Script, Upstream, chat_chunk},
};

/// Holds every character that an encoding treats in its own way and a header can carry.
const KEY: &str = "sk-planted/Ab3+xY9=\"Qz7&Lm0\\pQrStUvWx%41Kd5Fg8Hj2";
const DATABASE_PASSWORD: &str = "db-planted~Tn4wR8qLx2vZm6";
const REDIS_PASSWORD: &str = "redis-planted~Jc9sHy3kBf7dPw";
const HS256: &str = "hs256-planted/Vb5+nM1=tGh8&yUj4iKo0pLq";
/// 32 bytes in base64; another for the bad start.
const MASTER: &str = "cGxhbnRlZC1tYXN0ZXIta2V5LTkxMjgzNzQ2NTAhISE=";
const WRONG_MASTER: &str = "d3JvbmctbWFzdGVyLWtleS02NTczODI5MTA0NzgyISE=";

/// How the providers are given the key, each a provider and a model of that name.
const STYLES: [&str; 4] = ["bearer", "header", "query", "http2"];
/// Keys of each; most failures take one out for longer than the test.
const KEYS: usize = 60;
const CHAT: &str = "/v1/chat/completions";

/// The access tokens of one tenant.
struct Tokens {
    opaque: String,
    jwt: String,
    foreign: String,
}

impl Tokens {
    fn all(&self) -> [&str; 3] {
        [&self.opaque, &self.jwt, &self.foreign]
    }
}

#[tokio::test]
async fn nothing_is_told_alone() {
    let setup = marked(Setup::alone()).set("TOLLWAY_LOG_FORMAT", "pretty");
    let mut search = searching();
    play(&mut search, setup).await;
    assert!(search.finish() > 1 << 20, "there is something to search");
}

#[tokio::test]
async fn nothing_is_told_in_production() {
    let database = migrated_database().await;
    let redis = start_redis();
    let _: () = redis.run(redis::cmd("config").arg("set").arg("requirepass").arg(REDIS_PASSWORD));
    let setup = marked(Setup::alone())
        .set("DATABASE_URL", &with_password(&database.url, DATABASE_PASSWORD))
        .set("REDIS_URL", &with_password(&redis.url, REDIS_PASSWORD));
    let mut search = searching();
    play(&mut search, setup).await;
    look_in_tables(&mut search, &database).await;
    assert!(search.finish() > 1 << 20, "there is something to search");
}

#[tokio::test]
async fn a_bad_start_and_failing_commands_tell_nothing() {
    let database = migrated_database().await;
    let url = with_password(&database.url, DATABASE_PASSWORD);
    let good = || marked(Setup::alone()).set("DATABASE_URL", &url);
    good().scene().await.close().await;
    let away = format!("postgres://tollway:{DATABASE_PASSWORD}@127.0.0.1:9/tollway");
    let no_redis = format!("redis://:{REDIS_PASSWORD}@127.0.0.1:9/");
    let on_database = |url: String| good().set("DATABASE_URL", &url);
    let bad = [
        good().set("TOLLWAY_VAULT_MASTER_KEY", WRONG_MASTER),
        good().set("TOLLWAY_VAULT_MASTER_KEY", &MASTER[1..]),
        good().set("TOLLWAY_VAULT_MASTER_KEY_FILE", "/nowhere"),
        on_database(away.clone()),
        on_database(away.replace("127.0.0.1:9", "no-such-host.invalid")),
        on_database(away.replace("postgres:", "mysql:")),
        on_database(format!("postgres://tollway:{DATABASE_PASSWORD}@[::/x")),
        on_database(format!("postgres://u:1,{}:x@127.0.0.1:9/x", DATABASE_PASSWORD.replace('~', ""))),
        on_database(format!("{away}?sslmode={DATABASE_PASSWORD}")),
        on_database(format!("{away}?pasword={DATABASE_PASSWORD}")),
        on_database(DATABASE_PASSWORD.to_owned()),
        good().set("REDIS_URL", &no_redis),
        good().set("REDIS_URL", &no_redis.replace("redis:", "http:")),
        good().set("TOLLWAY_IDENTITY_HS256_SECRET", &HS256[..30]),
        good().set("TOLLWAY_LOG_LEVEL", "loud"),
    ];
    let mut search = searching();
    search.plant("wrong master key", WRONG_MASTER);
    for (n, setup) in bad.into_iter().enumerate() {
        let setup =
            setup.set("TOLLWAY_SERVER_LISTEN", "127.0.0.1:0").set("TOLLWAY_DATABASE_TIMEOUT", "300ms");
        let usual = [&["serve"][..], &["config", "show"], &["token", "list"]];
        let others = [
            &["config", "check"][..],
            &["migrate", "--check"],
            &["token", "issue", "--tenant", "acme"],
            &["token", "revoke", "tok_nonsense"],
            &["keys", "list"],
            &["reconcile"],
            &["healthcheck"],
        ];
        let all = usual.into_iter().chain(if n % 5 == 0 { &others[..] } else { &[] }.iter().copied());
        for arguments in all {
            look_at_command(&mut search, &setup, arguments).await;
        }
    }
    assert!(search.finish() > 10_000);
}

/// The settings with every secret in them marked, and every log line on.
fn marked(setup: Setup) -> Setup {
    setup
        .set("TOLLWAY_VAULT_MASTER_KEY", MASTER)
        .set("TOLLWAY_IDENTITY_HS256_SECRET", HS256)
        .set("TOLLWAY_LOG_LEVEL", "trace")
}

fn searching() -> Search {
    let mut search = Search::default();
    search.plant("upstream key", KEY);
    search.plant("database password", DATABASE_PASSWORD);
    search.plant("redis password", REDIS_PASSWORD);
    search.plant("HS256 secret", HS256);
    search.plant("master key", MASTER);
    search.plant_bytes("master key", &BASE64_STANDARD.decode(MASTER).unwrap());
    search
}

fn with_password(url: &str, password: &str) -> String {
    let mut url = url::Url::parse(url).unwrap();
    url.set_password(Some(password)).unwrap();
    url.to_string()
}

/// Serves, fails, is killed, comes back and stops; everything it leaves behind is searched.
async fn play(search: &mut Search, setup: Setup) {
    let upstream = Upstream::start();
    let scene = setup.scene().await;
    let house = scene.ordinary(&upstream.base_url()).await;
    for style in STYLES {
        set_up(&scene, &upstream, style).await;
    }
    let tokens = issue(&scene, house.a.tenant.id).await;
    for token in tokens.all() {
        search.plant("access token", token);
    }
    let operator = scene.operator_token().await;
    search.plant("operator's access token", &operator);
    let mut server = setup.boot().await;

    let every = if is_quick() { 4 } else { 1 };
    for (n, script) in echo::echoes(KEY).into_iter().enumerate().step_by(every) {
        for stream in [false, true] {
            let style = STYLES[n / every % STYLES.len()];
            upstream.then(script.clone());
            let body = json!({"model": style, "stream": stream, "messages": [], "nonce": n});
            let caller = server.caller(tokens.all()[n % 3]);
            look_at(search, "an answer", &Answer::of(caller.request(Method::POST, CHAT).json(&body)).await);
        }
    }
    let played = upstream.request_count();
    assert!(played > 700 / every, "the keys last: {played}");
    present_badly(search, &server, &tokens).await;
    for path in ["/metrics", "/readyz", "/healthz", "/.well-known/jwks.json", "/openapi.json", "/v1/models"] {
        look_at(search, path, &server.caller(&tokens.jwt).get(path).await);
    }
    for path in ["openapi.json", "keys", "providers", "access-tokens", "tenants", "models"] {
        let path = format!("/admin/v1/{path}");
        look_at(search, &path, &server.caller(&operator).get(&path).await);
    }

    upstream.then(Script::status(200).sse().body(hello()).hang());
    let mut open = server
        .caller(&tokens.jwt)
        .chat_stream(&json!({"model": STYLES[0], "stream": true, "messages": []}))
        .await;
    open.read_until("Hello").await;
    server.kill();
    search.look_in_files(&server.setup().data_dir());
    server.restart().await;
    let settled =
        async || server.anonymous().get("/readyz").await.json()["parts"]["journal"]["undrained_records"] == 0;
    eventually("the journal is drained", Duration::from_secs(20), settled).await;
    for arguments in
        [&["config", "show"][..], &["keys", "list"], &["token", "list"], &["token", "revoke", "tok_nonsense"]]
    {
        look_at_command(search, server.setup(), arguments).await;
    }
    server.stop().await;
    search.look_in_files(&server.setup().data_dir());
    search.look("the log", server.log().as_bytes());
}

async fn set_up(scene: &Scene, upstream: &Upstream, style: &str) {
    let provider = scene
        .provider(style, &upstream.base_url(), |provider| {
            provider.auth = match style {
                "header" => AuthStyle::Header("x-api-key".into()),
                "query" => AuthStyle::Query("key".into()),
                _ => AuthStyle::Bearer,
            };
            if style == "http2" {
                provider.transport = Transport::Http2;
            }
            provider.timeouts.idle_ms = 2_000;
        })
        .await;
    for n in 0..if is_quick() { KEYS } else { 2 * KEYS } {
        scene.key(&provider, &format!("key-{n}"), &format!("{KEY}-{n:03}"), |_| ()).await;
    }
    let model = scene.model(style, |_| ()).await;
    scene.route(&model, &provider, |_| ()).await;
}

async fn issue(scene: &Scene, tenant: TenantId) -> Tokens {
    let opaque = scene.token(tenant, |_| ()).await;
    let lasting = scene.now().plus(Duration::from_secs(3_600));
    let jwt = scene
        .token(tenant, |new| {
            new.form = TokenForm::Jwt;
            new.expires_at = Some(lasting);
        })
        .await;
    let claims = json!({
        "iss": "tollway", "aud": "tollway", "exp": lasting.unix_s(), "tid": tenant.to_string(),
        "jti": "planted-token-id-5501", "role": "member",
    });
    let secret = EncodingKey::from_secret(HS256.as_bytes()).unwrap();
    let foreign = jsonwebtoken::encode(&Header::new(Algorithm::HS256), &claims, &secret).unwrap();
    Tokens { opaque, jwt, foreign }
}

/// Access tokens where they do not help, and upstream keys where an access token belongs.
async fn present_badly(search: &mut Search, server: &Server, tokens: &Tokens) {
    let anonymous = server.anonymous();
    for token in tokens.all() {
        let broken = &token[..token.len() - 3];
        for path in [
            format!("/v1/models?key={token}"),
            format!("/v1/models?key={broken}"),
            format!("/nowhere/{token}?key={token}"),
            format!("/v1/chat/completions?key={token}"),
            format!("/metrics?key={token}"),
        ] {
            look_at(search, &path[..8], &anonymous.get(&path).await);
        }
        look_at(search, "a broken token", &server.caller(broken).get("/v1/models").await);
        let basic =
            anonymous.request(Method::GET, "/v1/models").header("authorization", format!("Basic {token}"));
        look_at(search, "basic", &Answer::of(basic).await);
        let mut raw = RawClient::connect(server.address()).await;
        let torn = format!(
            "GET /v1/models?key={token} HTTP/1.1\r\nauthorization: Bearer {token}\r\nbad header\r\n\r\n"
        );
        raw.send(torn.as_bytes()).await;
        search.look("a torn head", &raw.read_to_end().await.unwrap_or_default());
    }
    look_at(search, "a foreign key", &server.caller(KEY).get("/v1/models").await);
}

fn look_at(search: &mut Search, place: &str, answer: &Answer) {
    search.look(&format!("{place}: headers"), format!("{:?}", answer.headers).as_bytes());
    search.look(&format!("{place}: {}", answer.status), &answer.body);
}

/// Runs a command for as long as a start takes.
async fn look_at_command(search: &mut Search, setup: &Setup, arguments: &[&str]) {
    let place = format!("tollway {}", arguments.join(" "));
    let mut command = setup.command(arguments);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("run the binary");
    let pipes = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let read = std::thread::spawn(move || {
        let (mut out, mut err) = pipes;
        let mut told = Vec::new();
        out.read_to_end(&mut told).and_then(|_| err.read_to_end(&mut told)).expect("read a pipe");
        told
    });
    for _ in 0..300 {
        if child.try_wait().expect("ask for the state").is_some() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let _ = child.kill();
    let _ = child.wait();
    search.look(&place, &read.join().expect("the reader ends"));
}

async fn look_in_tables(search: &mut Search, database: &TestDatabase) {
    let mut connection = PgConnection::connect(&database.url).await.unwrap();
    let tables = "select quote_ident(schemaname) || '.' || quote_ident(tablename) from pg_tables \
                  where schemaname not in ('pg_catalog', 'information_schema')";
    let names: Vec<String> = sqlx::query_scalar(tables).fetch_all(&mut connection).await.unwrap();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let copy = format!("copy (select * from {name}) to stdout");
        let mut rows = connection.copy_out_raw(&copy).await.unwrap();
        let mut dump = Vec::new();
        while let Some(piece) = rows.next().await {
            dump.extend_from_slice(&piece.unwrap());
        }
        drop(rows);
        search.look(&format!("table {name}"), &dump);
    }
    connection.close().await.unwrap();
}

fn hello() -> String {
    chat_chunk(&json!({"content": "Hello"}), &Value::Null)
}
