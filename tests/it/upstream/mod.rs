//! Calls to providers against a scripted socket: what goes out, and what is made of an answer.

mod errors;
mod outgoing;

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use tollway::{
    domain::{
        clock::Timestamp,
        ids::{KeyId, ProviderId, RequestId},
        key::{Key, KeyState},
        limits::Limits,
        provider::{ApiFormat, AuthStyle, Provider, Tier, Timeouts, Transport},
        secret::Secret,
    },
    net::Target,
    upstream::{Call, CallError, Reply, Upstream, key_purpose},
    vault::{MasterKey, SeededEntropy, Vault},
};

use crate::net::{Server, client};

/// A key as a provider gives it, with everything in it that some encoding changes.
pub const SECRET: &str = "sk-proj-Zx9/Qw+7Er=tY_4uI-oP2aSdF6gHjK";
pub const NOW: Timestamp = Timestamp::from_unix_s(1_800_000_000);

/// A provider, one sealed key of it, and a worker's upstream.
pub struct Desk {
    pub upstream: Upstream,
    pub provider: Provider,
    pub key: Key,
    pub server: Server,
    pub target: Target,
}

impl Desk {
    pub async fn with(auth: AuthStyle, secret: &str) -> Self {
        let vault = vault();
        let server = Server::bind().await;
        let target = server.target();
        let provider = Provider {
            id: ProviderId::generate(NOW, [1; 10]),
            name: "upstream".to_owned(),
            base_url: format!("http://{}", server.address),
            format: ApiFormat::OpenAiChat,
            auth,
            tier: Tier::Cheap,
            transport: Transport::Http1,
            headers: BTreeMap::new(),
            timeouts: Timeouts::default(),
            enabled: true,
            version: 1,
            created_at: NOW,
            updated_at: NOW,
        };
        let id = KeyId::generate(NOW, [2; 10]);
        let key = Key {
            id,
            provider_id: provider.id,
            tenant_id: None,
            label: "one".to_owned(),
            secret: vault.seal(&key_purpose(id), &Secret::new(secret.to_owned())).unwrap(),
            fingerprint: String::new(),
            priority: 0,
            weight: 1,
            limits: Limits::default(),
            base_url: None,
            params: BTreeMap::new(),
            state: KeyState::Active,
            version: 1,
            created_at: NOW,
            updated_at: NOW,
        };
        Self { upstream: Upstream::new(client(), Arc::new(vault)), provider, key, server, target }
    }

    pub async fn send(&self, stream: bool) -> Result<Reply, CallError> {
        let call = Call {
            provider: &self.provider,
            key: &self.key,
            target: &self.target,
            path: "/chat/completions",
            body: Bytes::from_static(b"{\"model\":\"m\"}"),
            stream,
            request_id: RequestId::generate(NOW, [3; 10]),
        };
        self.upstream.send(&call).await
    }

    /// One call and the head that went out.
    pub async fn outgoing(&self, stream: bool) -> String {
        let (reply, head) = tokio::join!(self.send(stream), async {
            let mut peer = self.server.accept().await;
            let (head, body) = peer.request().await;
            assert_eq!(body, b"{\"model\":\"m\"}");
            peer.say(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n").await;
            head
        });
        assert_eq!(reply.unwrap().status, 200);
        head
    }

    /// One call and its reply to these bytes; the connection stays open until the peer is dropped.
    pub async fn reply(&self, answer: &[u8]) -> Reply {
        let (reply, peer) = tokio::join!(self.send(false), self.server.answer(answer));
        drop(peer);
        reply.unwrap()
    }
}

fn vault() -> Vault {
    let entropy = Arc::new(SeededEntropy::from_seed(7));
    let text = Secret::new("AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=".to_owned());
    let master = MasterKey::from_base64("test", &text).unwrap();
    let data_key = Vault::new_data_key(1, &master, &*entropy).unwrap();
    Vault::open(&master, &[data_key], 1, entropy).unwrap()
}
