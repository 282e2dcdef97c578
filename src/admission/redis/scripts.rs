//! The Lua scripts: one an operation, each within one provider's or one tenant's slot.
//!
//! Key names carry [`LAYOUT`]: a release that changes what the keys hold counts it up, and replicas
//! of both releases keep apart during a rolling update.

use ::redis::{Cmd, Script as Lua};

use crate::{
    domain::ids::{ProviderId, TenantId},
    telemetry::labels::AdmissionOp,
};

/// Version of what the keys hold.
const LAYOUT: u32 = 1;

const PRELUDE: &str = include_str!("scripts/prelude.lua");
const RECONSIDER: &str = include_str!("scripts/reconsider.lua");
const PASSES: &str = include_str!("scripts/passes.lua");
const TOLD: &str = include_str!("scripts/told.lua");

macro_rules! scripts {
    ($($name:ident: $op:ident = $file:literal $(+ $part:ident)*;)*) => {
        /// All scripts, with their hashes.
        #[derive(Debug)]
        pub struct Scripts { $(pub $name: Script,)* }

        impl Scripts {
            pub fn new() -> Self {
                Self { $($name: Script::new(
                    AdmissionOp::$op,
                    &[PRELUDE, $($part,)* include_str!(concat!("scripts/", $file, ".lua"))],
                ),)* }
            }
        }
    };
}

scripts! {
    enter: Enter = "enter" + PASSES;
    acquire: Acquire = "acquire";
    load: Acquire = "load";
    settle_lease: Settle = "settle_lease" + RECONSIDER + TOLD;
    settle_pass: Settle = "settle_pass" + PASSES + TOLD;
    renew_leases: Renew = "renew_leases";
    renew_passes: Renew = "renew_passes" + PASSES;
    cool: Cool = "cool";
    clear: Cool = "clear" + RECONSIDER;
    inspect_keys: Inspect = "inspect_keys";
    inspect_tenant: Inspect = "inspect_tenant" + PASSES;
    tell: Renew = "tell";
    heartbeat: Renew = "heartbeat";
}

/// One script.
#[derive(Debug)]
pub struct Script {
    /// What it is counted as.
    pub op: AdmissionOp,
    code: String,
    hash: String,
}

impl Script {
    fn new(op: AdmissionOp, parts: &[&str]) -> Self {
        let code = parts.join("\n");
        let hash = Lua::new(&code).get_hash().to_owned();
        Self { op, code, hash }
    }

    /// By its hash, which the server knows once it ran.
    pub fn by_hash(&self, call: &Call) -> Cmd {
        call.cmd("EVALSHA", &self.hash)
    }

    /// With its text, for a server that does not know it.
    pub fn by_text(&self, call: &Call) -> Cmd {
        call.cmd("EVAL", &self.code)
    }
}

/// The key and arguments of one call.
#[derive(Debug, Clone)]
pub struct Call {
    key: Vec<u8>,
    args: Vec<Vec<u8>>,
}

impl Call {
    /// On a provider's keys.
    pub fn on_provider(provider: ProviderId, offset_us: i64) -> Self {
        Self::on(format!("{{p:{}}}{LAYOUT}:m", provider.uuid().as_simple()), offset_us)
    }

    /// On a tenant's keys.
    pub fn on_tenant(tenant: TenantId, offset_us: i64) -> Self {
        Self::on(format!("{{t:{}}}{LAYOUT}:w", tenant.uuid().as_simple()), offset_us)
    }

    /// On the roll of replicas.
    pub fn on_replicas(offset_us: i64) -> Self {
        Self::on(format!("{{replicas}}{LAYOUT}:r"), offset_us)
    }

    fn on(key: String, offset_us: i64) -> Self {
        let mut args = Vec::with_capacity(12);
        args.push(offset_us.to_string().into_bytes());
        Self { key: key.into_bytes(), args }
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        self.args.push(bytes.to_vec());
        self
    }

    pub fn int(self, value: impl Into<i128>) -> Self {
        let value: i128 = value.into();
        self.bytes(value.to_string().as_bytes())
    }

    pub fn id(self, id: uuid::Uuid) -> Self {
        self.bytes(id.as_bytes())
    }

    /// A command on the key itself: which epoch its counters are of.
    pub fn epoch(&self) -> Cmd {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(&self.key[..]).arg("e");
        cmd
    }

    fn cmd(&self, name: &str, script: &str) -> Cmd {
        let mut cmd = redis::cmd(name);
        cmd.arg(script).arg(1).arg(&self.key[..]);
        for arg in &self.args {
            cmd.arg(&arg[..]);
        }
        cmd
    }
}
