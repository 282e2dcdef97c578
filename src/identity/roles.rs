//! What a claimed role comes to: a token narrows what its holder may do and never widens it.

use crate::domain::principal::Role;

/// The role of a token that claims `claimed` (nothing claimed: all its holder may do) for a
/// holder whose role is `base`. None when nothing of what is claimed is the holder's to give.
///
/// The operator's role stands beside the tenant's roles, not above them: no token of a tenant
/// reaches it.
pub(super) fn narrowed(base: Role, claimed: Option<&[Role]>) -> Option<Role> {
    let Some(claimed) = claimed else { return Some(base) };
    claimed.iter().filter_map(|&role| common(base, role)).max_by_key(|&role| rank(role))
}

/// The narrower of two roles, where one includes the other.
fn common(a: Role, b: Role) -> Option<Role> {
    if includes(a, b) { Some(b) } else { includes(b, a).then_some(a) }
}

/// Whether `wider` may do all that `narrower` may within a tenant.
fn includes(wider: Role, narrower: Role) -> bool {
    match wider {
        Role::Owner => narrower != Role::Operator,
        Role::Admin => matches!(narrower, Role::Admin | Role::Member | Role::Auditor),
        Role::Operator | Role::Member | Role::Auditor => wider == narrower,
    }
}

const fn rank(role: Role) -> u8 {
    match role {
        Role::Auditor => 0,
        Role::Member => 1,
        Role::Admin => 2,
        Role::Owner => 3,
        Role::Operator => 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Role; 5] = [Role::Operator, Role::Owner, Role::Admin, Role::Member, Role::Auditor];

    #[test]
    fn no_claim_widens_a_role() {
        for base in ALL {
            for claimed in ALL {
                if let Some(role) = narrowed(base, Some(&[claimed])) {
                    assert!(includes(base, role), "{base:?} claiming {claimed:?} came to {role:?}");
                }
            }
        }
    }

    #[test]
    fn claims_narrow_and_what_is_not_the_holders_is_refused() {
        assert_eq!(narrowed(Role::Owner, None), Some(Role::Owner));
        assert_eq!(narrowed(Role::Owner, Some(&[Role::Member])), Some(Role::Member));
        assert_eq!(narrowed(Role::Member, Some(&[Role::Admin])), Some(Role::Member));
        assert_eq!(narrowed(Role::Member, Some(&[Role::Auditor])), None);
        assert_eq!(narrowed(Role::Auditor, Some(&[Role::Member])), None);
        assert_eq!(narrowed(Role::Owner, Some(&[Role::Operator])), None);
        assert_eq!(narrowed(Role::Operator, Some(&[Role::Owner])), None);
        assert_eq!(narrowed(Role::Owner, Some(&[])), None);
        assert_eq!(narrowed(Role::Owner, Some(&[Role::Auditor, Role::Member])), Some(Role::Member));
    }
}
