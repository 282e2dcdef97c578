//! Tenants, their members and their grants, compared with the store.

use super::{
    ApplyError, Step,
    entries::{MemberEntry, TenantEntry},
    known,
    planner::{Planner, birth},
    read::{Place, Placed},
};
use crate::domain::{
    grant::{Effect, Grant, GrantSubject, Grants, Pattern},
    ids::{GrantId, MemberId, TenantId},
    tenant::{Member, Tenant},
};

impl Planner<'_> {
    pub(super) async fn tenant(&mut self, wanted: &Placed<'_, TenantEntry>) -> Result<(), ApplyError> {
        let Placed { place, entry } = wanted;
        let old = self.tools.store.find_tenant_by_name(&entry.name).await?;
        let (id, version, created_at) = birth!(self, &old, TenantId);
        let tenant = Tenant {
            id,
            name: entry.name.clone(),
            limits: entry.limits,
            billing: entry.billing,
            enabled: entry.enabled,
            version,
            created_at,
            updated_at: self.now,
        };
        let name = format!("tenant {}", entry.name);
        self.claim(place, &name);
        self.faults(place, tenant.faults());
        self.tenants.insert(entry.name.clone(), id);
        self.steps.push(Step::settle(name, old.as_ref(), tenant));

        let known = known::grants(self.tools.store, id).await?;
        if let Some(grants) = &entry.grants {
            self.grants(place, &entry.name, (id, GrantSubject::Tenant), grants, &known);
        }
        for (at, member) in entry.members.iter().enumerate() {
            let place = place.below(&format!("members[{at}]"));
            self.member(&place, (id, &entry.name), member, &known).await?;
        }
        Ok(())
    }

    async fn member(
        &mut self,
        place: &Place<'_>,
        (tenant_id, tenant): (TenantId, &str),
        entry: &MemberEntry,
        known: &[Grant],
    ) -> Result<(), ApplyError> {
        let old = self.tools.store.find_member_by_subject(tenant_id, &entry.subject).await?;
        let (id, version, created_at) = birth!(self, &old, MemberId);
        let member = Member {
            id,
            tenant_id,
            subject: entry.subject.clone(),
            role: entry.role,
            token_generation: old.as_ref().map_or(0, |old| old.token_generation),
            limits: entry.limits,
            enabled: entry.enabled,
            version,
            created_at,
            updated_at: self.now,
        };
        let holder = format!("{tenant}/{}", entry.subject);
        let name = format!("member {holder}");
        self.claim(place, &name);
        self.faults(place, member.faults());
        self.steps.push(Step::settle(name, old.as_ref(), member));
        if let Some(grants) = &entry.grants {
            self.grants(place, &holder, (tenant_id, GrantSubject::Member(id)), grants, known);
        }
        Ok(())
    }

    /// A list of grants is the whole list: what it does not have goes.
    fn grants(
        &mut self,
        place: &Place<'_>,
        holder: &str,
        (tenant_id, subject): (TenantId, GrantSubject),
        wanted: &Grants,
        known: &[Grant],
    ) {
        let mut known: Vec<&Grant> = known.iter().filter(|grant| grant.subject == subject).collect();
        known.sort_by(|a, b| a.pattern.as_str().cmp(b.pattern.as_str()));
        let lines = |patterns: &[Pattern], effect| -> Vec<(Pattern, Effect)> {
            patterns.iter().cloned().map(|pattern| (pattern, effect)).collect()
        };
        let lines = [lines(&wanted.allow, Effect::Allow), lines(&wanted.deny, Effect::Deny)].concat();
        for (at, (pattern, effect)) in lines.iter().enumerate() {
            if lines[..at].iter().any(|(earlier, _)| earlier == pattern) {
                let reason = format!("the pattern {} stands twice", pattern.as_str());
                self.problem(place.below("grants").problem(reason));
                continue;
            }
            let old = known.iter().find(|grant| grant.pattern == *pattern).copied();
            let (id, version, created_at) = birth!(self, old, GrantId);
            let grant = Grant {
                id,
                tenant_id,
                subject,
                pattern: pattern.clone(),
                effect: *effect,
                version,
                created_at,
                updated_at: self.now,
            };
            self.steps.push(Step::settle(grant_name(holder, &grant), old, grant));
        }
        for grant in known {
            if !lines.iter().any(|(pattern, _)| *pattern == grant.pattern) {
                self.steps.push(Step::remove(grant_name(holder, grant), grant.clone()));
            }
        }
    }
}

fn grant_name(holder: &str, grant: &Grant) -> String {
    format!("grant {holder}: {} {}", grant.effect.as_str(), grant.pattern.as_str())
}
