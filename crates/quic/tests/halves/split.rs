//! A connection in two halves, with the calls of a whole one.

use std::thread;
use std::time::Duration;

use wireseal_quic::{
    AuthenticationFailures, Backend, KeyPhases, Now, NumberLength, OneRttState, OpenError, Opened, Outgoing,
    Protected, ReceiveSpace, ReceivingHalf, SealError, SendingHalf, StateError, UpdateError,
};

/// Its packets are opened on another thread than they are sealed on. One half knows what the other has done only from what they share.
#[derive(Debug)]
pub(crate) struct OneRtt {
    sending: SendingHalf,
    receiving: ReceivingHalf,
    phases: KeyPhases,
}

impl From<wireseal_quic::OneRtt> for OneRtt {
    fn from(whole: wireseal_quic::OneRtt) -> Self {
        let (sending, receiving, phases) = whole.split();
        Self { sending, receiving, phases }
    }
}

impl OneRtt {
    pub(crate) fn into_halves(self) -> (SendingHalf, ReceivingHalf, KeyPhases) {
        (self.sending, self.receiving, self.phases)
    }

    pub(crate) fn import(
        state: OneRttState,
        time: Duration,
    ) -> Result<(Self, ReceiveSpace, AuthenticationFailures), StateError> {
        Self::import_with_backend(Backend::active(), state, time)
    }

    pub(crate) fn import_with_backend(
        backend: Backend,
        state: OneRttState,
        time: Duration,
    ) -> Result<(Self, ReceiveSpace, AuthenticationFailures), StateError> {
        wireseal_quic::OneRtt::import_with_backend(backend, state, time)
            .map(|(whole, space, failures)| (whole.into(), space, failures))
    }

    pub(crate) fn export(
        self,
        time: Duration,
        space: ReceiveSpace,
        failures: AuthenticationFailures,
    ) -> OneRttState {
        let Self { sending, receiving, phases } = self;
        wireseal_quic::OneRtt::join(sending, receiving, phases).export(time, space, failures)
    }

    pub(crate) fn seal(&mut self, outgoing: Outgoing<'_>) -> Result<u64, SealError> {
        let number = self.sending.seal(&self.phases, outgoing)?;
        self.receiving.prepare();
        Ok(number)
    }

    pub(crate) fn open<'a>(
        &mut self,
        packet: Protected<'a>,
        now: Now,
        space: &mut ReceiveSpace,
        failures: &mut AuthenticationFailures,
    ) -> Result<Opened<'a>, OpenError> {
        let Self { sending, receiving, phases } = self;
        let opened = thread::scope(|scope| {
            scope.spawn(|| receiving.open(phases, packet, now, space, failures)).join().unwrap()
        })?;
        sending.follow(phases);
        Ok(opened)
    }

    pub(crate) fn initiate_update(&mut self, time: Duration) -> Result<(), UpdateError> {
        self.sending.initiate_update(&self.phases, time)?;
        self.receiving.follow(&self.phases);
        Ok(())
    }

    pub(crate) fn acknowledged(&mut self, largest: u64, generation: u64, now: Now) -> Result<(), OpenError> {
        self.sending.acknowledged(&self.phases, largest, generation, now)
    }

    pub(crate) fn generation(&self) -> u64 {
        assert_eq!(self.sending.generation(), self.receiving.generation());
        self.sending.generation()
    }

    pub(crate) fn key_phase(&self) -> bool {
        self.sending.key_phase()
    }

    pub(crate) fn derivations(&self) -> u64 {
        self.sending.derivations().max(self.receiving.derivations())
    }

    pub(crate) fn prepare(&mut self) {
        self.sending.prepare();
        self.receiving.prepare();
    }

    pub(crate) fn confirm_handshake(&mut self) {
        self.sending.confirm_handshake();
    }

    pub(crate) fn expire(&mut self, time: Duration) {
        self.receiving.expire(time);
    }

    pub(crate) fn expires(&self) -> Option<Duration> {
        self.receiving.expires()
    }

    pub(crate) fn update_due(&self) -> bool {
        self.sending.update_due()
    }

    pub(crate) fn remaining(&self) -> Option<u64> {
        self.sending.remaining()
    }

    pub(crate) fn next_number(&self) -> Option<u64> {
        self.sending.next_number()
    }

    pub(crate) fn number_length(&self) -> NumberLength {
        self.sending.number_length()
    }

    pub(crate) fn skip_numbers(&mut self, count: u64) {
        self.sending.skip_numbers(count);
    }
}
