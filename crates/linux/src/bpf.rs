//! The kernel's classic BPF, which it runs on packets and on system calls: instructions with jumps to labels.

use std::iter;

// Instructions of linux/filter.h. X holds where a header begins; what is loaded is in A.
pub(crate) const LOAD_ABSOLUTE_16: u16 = 0x28;
pub(crate) const LOAD_ABSOLUTE_32: u16 = 0x20;
pub(crate) const LOAD_32: u16 = 0x40;
pub(crate) const LOAD_16: u16 = 0x48;
pub(crate) const LOAD_8: u16 = 0x50;
pub(crate) const LOAD_KEPT: u16 = 0x60;
pub(crate) const KEEP: u16 = 0x02;
pub(crate) const SET_X: u16 = 0x01;
pub(crate) const A_TO_X: u16 = 0x07;
pub(crate) const X_TO_A: u16 = 0x87;
pub(crate) const ADD: u16 = 0x04;
pub(crate) const ADD_X: u16 = 0x0c;
pub(crate) const AND: u16 = 0x54;
pub(crate) const SHIFT_LEFT: u16 = 0x64;
pub(crate) const JUMP: u16 = 0x05;
pub(crate) const JUMP_IF_EQUAL: u16 = 0x15;
pub(crate) const JUMP_IF_AT_LEAST: u16 = 0x35;
pub(crate) const JUMP_IF_ANY_BIT: u16 = 0x45;
pub(crate) const RETURN: u16 = 0x06;

/// An instruction, with the fields of `struct sock_filter`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Instruction {
    /// What it does.
    pub code: u16,
    /// How many instructions a conditional jump skips if its condition holds.
    pub if_true: u8,
    /// How many if it does not.
    pub if_false: u8,
    /// A value, an offset, or how many instructions a jump skips.
    pub operand: u32,
}

/// A place in the program that is jumped to.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Label(usize);

/// Instructions, some of which are jumps to places that are not known yet. A conditional jump goes at most 255 instructions far, so each
/// goes around an unconditional one.
#[derive(Default)]
pub(crate) struct Assembler {
    steps: Vec<Step>,
    /// Where labels are, once that is known.
    places: Vec<usize>,
}

enum Step {
    Is(Instruction),
    Jump(Label),
}

impl Assembler {
    pub(crate) fn label(&mut self) -> Label {
        self.places.push(0);
        Label(self.places.len() - 1)
    }

    /// The label is of the instruction that comes next. All jumps to it are there already.
    pub(crate) fn place(&mut self, label: Label) {
        self.places[label.0] = self.steps.len();
    }

    pub(crate) fn emit(&mut self, code: u16, operand: u32) {
        self.steps.push(Step::Is(Instruction { code, if_true: 0, if_false: 0, operand }));
    }

    pub(crate) fn jump(&mut self, target: Label) {
        self.steps.push(Step::Jump(target));
    }

    /// Jumps if a condition on A holds.
    pub(crate) fn jump_if(&mut self, code: u16, operand: u32, target: Label) {
        self.steps.push(Step::Is(Instruction { code, if_true: 0, if_false: 1, operand }));
        self.jump(target);
    }

    /// Jumps unless A is this.
    pub(crate) fn jump_unless(&mut self, operand: u32, target: Label) {
        self.steps.push(Step::Is(Instruction { code: JUMP_IF_EQUAL, if_true: 1, if_false: 0, operand }));
        self.jump(target);
    }

    pub(crate) fn finish(self) -> Vec<Instruction> {
        let Self { steps, places } = self;
        let encoded = iter::zip(1.., steps).map(|(next, step)| match step {
            Step::Is(instruction) => instruction,
            Step::Jump(Label(label)) => {
                Instruction { code: JUMP, if_true: 0, if_false: 0, operand: (places[label] - next) as u32 }
            }
        });
        encoded.collect()
    }
}
