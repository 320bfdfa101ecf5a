/* In a library without an operating system a fault stops the processor. */
#define _POSIX_C_SOURCE 200809L
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "connection.h"

int main(void)
{
    int status = 0;
    const pid_t child = fork();

    if (child == 0)
        _exit(wireseal_connection_panic(a_connection()) == WIRESEAL_STATUS_INTERNAL);
    if (child < 0 || waitpid(child, &status, 0) != child)
        return 2;
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGILL) {
        fprintf(stderr, "trap.c: the fault ended with %d, not by SIGILL\n", status);
        return 1;
    }
    return 0;
}
