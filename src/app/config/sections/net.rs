//! `[net]`: calls going out.

use ipnet::IpNet;

use crate::app::config::section::section;

section! {
    /// The guard on calls to addresses that a tenant or an admin can choose.
    "net" NetSection {
        /// Networks that may be called although they are loopback, private, link-local or otherwise not
        /// public, such as `127.0.0.0/8` for a model server on this machine.
        allow: Vec<IpNet> = "";
    }
    |_net, _check| {}
}
