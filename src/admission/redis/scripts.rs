//! The Lua scripts: one for each kind of owner, all of whose keys live in one slot, with every operation
//! on them.
//!
//! Key names carry [`LAYOUT`]: a release that changes what the keys hold counts it up, and replicas
//! of both releases keep apart during a rolling update.

use ::redis::{Cmd, Script as Lua};
use uuid::Uuid;

use crate::{
    domain::ids::{ProviderId, TenantId},
    telemetry::labels::AdmissionOp,
};

/// Version of what the keys hold.
const LAYOUT: &str = "1";

const HEAD: &str = include_str!("scripts/prelude.lua");
const FOOT: &str = include_str!("scripts/foot.lua");

macro_rules! scripts {
    ($($owner:ident, $kind:ident: [$($part:literal),*] { $($op:ident = $name:literal, $label:ident;)* })*) => {
        /// All scripts, with their hashes.
        #[derive(Debug)]
        pub struct Scripts { $($owner: Script,)* }

        /// Whose keys a call is on.
        #[derive(Debug, Clone, Copy)]
        enum Kind { $($kind,)* }

        /// What a call asks for.
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum Op { $($($op,)*)* }

        impl Scripts {
            pub fn new() -> Self {
                Self { $($owner: Script::new(
                    &[$(include_str!(concat!("scripts/", $part, ".lua")),)*],
                    &[$(($name, include_str!(concat!("scripts/", $name, ".lua"))),)*],
                ),)* }
            }

            /// The script that a call is for.
            pub const fn of(&self, call: &Call) -> &Script {
                match call.op.kind() { $(Kind::$kind => &self.$owner,)* }
            }
        }

        impl Op {
            /// What it is counted as.
            pub const fn label(self) -> AdmissionOp {
                match self { $($(Self::$op => AdmissionOp::$label,)*)* }
            }

            const fn name(self) -> &'static str {
                match self { $($(Self::$op => $name,)*)* }
            }

            const fn kind(self) -> Kind {
                match self { $($(Self::$op => Kind::$kind,)*)* }
            }
        }
    };
}

scripts! {
    tenant, Tenant: ["passes", "told"] {
        Enter = "enter", Enter;
        SettlePass = "settle_pass", Settle;
        RenewPasses = "renew_passes", Renew;
        InspectTenant = "inspect_tenant", Inspect;
        TellTenant = "tell", Renew;
    }
    provider, Provider: ["views", "reconsider", "told"] {
        Acquire = "acquire", Acquire;
        Load = "load", Acquire;
        SettleLease = "settle_lease", Settle;
        RenewLeases = "renew_leases", Renew;
        Cool = "cool", Cool;
        Clear = "clear", Cool;
        InspectKeys = "inspect_keys", Inspect;
        TellProvider = "tell", Renew;
    }
    replicas, Replicas: [] {
        CallRoll = "heartbeat", Renew;
    }
}

/// One script.
#[derive(Debug)]
pub struct Script {
    code: String,
    hash: String,
}

impl Script {
    fn new(parts: &[&str], operations: &[(&str, &str)]) -> Self {
        let mut code = [HEAD, &parts.concat(), "local operations = {}\n"].concat();
        for (name, body) in operations {
            code.push_str(&["operations.", name, " = function(ARGV)\n", body, "end\n"].concat());
        }
        code += FOOT;
        let hash = Lua::new(&code).get_hash().to_owned();
        Self { code, hash }
    }

    /// Some calls on one owner's keys, by the script's hash, which the server knows once it ran. `awaited_until`:
    /// by the server's clock, in microseconds, zero for ever; later it does nothing.
    pub fn by_hash(&self, calls: &[Call], awaited_until: i64) -> Cmd {
        cmd("EVALSHA", &self.hash, calls, awaited_until)
    }

    /// With the script's text, for a server that does not know it.
    pub fn by_text(&self, calls: &[Call], awaited_until: i64) -> Cmd {
        cmd("EVAL", &self.code, calls, awaited_until)
    }
}

fn cmd(name: &str, script: &str, calls: &[Call], awaited_until: i64) -> Cmd {
    let mut cmd = redis::cmd(name);
    cmd.arg(script).arg(1);
    if let Some(first) = calls.first() {
        cmd.arg(&first.key[..]).arg(first.offset_us).arg(awaited_until);
    }
    for call in calls {
        cmd.arg(&call.packed[..]);
    }
    cmd
}

/// One operation on an owner's keys.
#[derive(Debug, Clone)]
pub struct Call {
    pub op: Op,
    key: Vec<u8>,
    /// Added to the server's time.
    offset_us: i64,
    /// An array in `MessagePack`: the operation's name and arguments, all of them strings.
    packed: Vec<u8>,
    /// Its length, which is also in its head.
    count: u16,
}

/// The main key of an owner: what is in braces chooses the slot.
fn key_of(kind: &str, owner: Uuid, what: &str) -> String {
    let mut hex = Uuid::encode_buffer();
    [kind, owner.as_simple().encode_lower(&mut hex), "}", LAYOUT, what].concat()
}

/// An array of up to 2^16 elements begins with this byte and their number.
const ARRAY_16: u8 = 0xdc;
const HEAD_OF_ARRAY: usize = 3;

impl Call {
    /// On a provider's keys.
    pub fn on_provider(op: Op, provider: ProviderId, offset_us: i64) -> Self {
        Self::on(op, key_of("{p:", provider.uuid(), ":m"), offset_us)
    }

    /// On a tenant's keys.
    pub fn on_tenant(op: Op, tenant: TenantId, offset_us: i64) -> Self {
        Self::on(op, key_of("{t:", tenant.uuid(), ":w"), offset_us)
    }

    /// On the roll of replicas.
    pub fn on_replicas(op: Op, offset_us: i64) -> Self {
        Self::on(op, ["{replicas}", LAYOUT, ":r"].concat(), offset_us)
    }

    fn on(op: Op, key: String, offset_us: i64) -> Self {
        let mut packed = Vec::with_capacity(192);
        packed.extend([ARRAY_16, 0, 0]);
        Self { op, key: key.into_bytes(), offset_us, packed, count: 0 }.bytes(op.name().as_bytes())
    }

    pub fn bytes(mut self, bytes: &[u8]) -> Self {
        // As the strings of Lua, which are any bytes.
        match u8::try_from(bytes.len()) {
            Ok(short @ ..32) => self.packed.push(0xa0 | short),
            Ok(len) => self.packed.extend([0xd9, len]),
            Err(_) => {
                self.packed.push(0xdb);
                self.packed.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
            }
        }
        self.packed.extend_from_slice(bytes);
        self.count += 1;
        self.packed[1..HEAD_OF_ARRAY].copy_from_slice(&self.count.to_be_bytes());
        self
    }

    pub fn int(self, value: impl Into<i128>) -> Self {
        let value = value.into();
        let mut digits = itoa::Buffer::new();
        self.bytes(match i64::try_from(value) {
            Ok(value) => digits.format(value).as_bytes(),
            Err(_) => digits.format(value).as_bytes(),
        })
    }

    pub fn id(self, id: Uuid) -> Self {
        self.bytes(id.as_bytes())
    }

    /// A command on the key itself: which epoch its counters are of.
    pub fn epoch(&self) -> Cmd {
        let mut cmd = redis::cmd("HGET");
        cmd.arg(&self.key[..]).arg("e");
        cmd
    }
}
