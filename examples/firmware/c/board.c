/* The start of a program on Arm's MPS2 with the FPGA image AN386 (QEMU: mps2-an386), its console, and its end. Without a C library. */
#include "board.h"

/* Of board.ld. */
extern uint32_t data_start[], data_end[], data_in_flash[], bss_start[], bss_end[], stack_end[];

enum { PAINT = 0x5a5a5a5a };

/* A register of the console, a CMSDK APB UART (Arm DDI 0479D, section 4.3): data, state, control, interrupt, divider. */
static volatile uint32_t *console(unsigned number)
{
    return (volatile uint32_t *)0x40004000 + number;
}

void print(const char *text)
{
    for (; *text != 0; text++) {
        while (*console(1) & 1) {
        }
        *console(0) = (uint8_t)*text;
    }
}

void print_number(uint32_t number)
{
    char digits[2] = {(char)('0' + number % 10), 0};
    if (number >= 10)
        print_number(number / 10);
    print(digits);
}

uint32_t deepest_stack(void)
{
    const uint32_t *word = bss_end;
    while (*word == PAINT)
        word++;
    return (uint32_t)((uintptr_t)stack_end - (uintptr_t)word);
}

/* Asks QEMU to end, by Arm's semihosting: SYS_EXIT, ADP_Stopped_ApplicationExit or another reason. */
static __attribute__((noreturn)) void end(int has_succeeded)
{
    register uint32_t call __asm__("r0") = 0x18;
    register uint32_t reason __asm__("r1") = has_succeeded ? 0x20026 : 0x20023;
    for (;;)
        __asm__ volatile("bkpt 0xab" : : "r"(call), "r"(reason) : "memory");
}

/* All exceptions. A panic in the library is an undefined instruction, and so ends here: a product would reset the device. */
static __attribute__((noreturn)) void fault(void)
{
    print("fault\n");
    end(0);
}

static __attribute__((noreturn)) void reset(void)
{
    uint32_t *to;
    const uint32_t *from = data_in_flash;
    for (to = data_start; to < data_end; to++)
        *to = *from++;
    for (to = bss_start; to < bss_end; to++)
        *to = 0;
    /* Up to this function's frame. */
    for (; to < (uint32_t *)__builtin_frame_address(0) - 64; to++)
        *to = PAINT;
    *console(4) = 16;
    *console(2) = 1;
    end(run() == 0);
}

/* Where the stack begins, what runs at a reset, and the exceptions of the processor (Arm DDI 0403E.b, section B1.5.2). */
__attribute__((section(".vectors"), used)) static const struct {
    uint32_t *stack;
    void (*handlers[15])(void);
} vectors = {stack_end, {reset, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault, fault}};
