/* How processes find each other beside MPI, over addresses of which some lead elsewhere; and how
 * one leaves. Processes are threads; the machine's addresses and where they lead are the test's. */
#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/base/clock.h"
#include "core/base/log.h"
#include "core/comm/lifeline.h"

enum { MOST = 3, ADDRESSES = 8, SHOWN = 8192 };

/* What is behind the last byte of 127.0.0.x, for whoever connects. */
enum { HOST = 3, SILENT, BABBLING, NOBODY, HOST_TOO };

/* --- the machine --- */

static struct ifaddrs shown[ADDRESSES];
static struct sockaddr_in shown_at[ADDRESSES];
static int silent_fd, babbling_fd, nobody_fd; /* nobody's is not listened at */
static atomic_int asked[16];                  /* connections, by last byte */
static atomic_int last_fd;                    /* that went to process 0 */
static atomic_int n_babbled;
static atomic_int rogue_fd; /* -1: none is to come */

static void show(int i, const char *address, unsigned flags)
{
    shown_at[i] = (struct sockaddr_in){.sin_family = AF_INET};
    assert_int_equal(inet_pton(AF_INET, address, &shown_at[i].sin_addr), 1);
    shown[i] = (struct ifaddrs){.ifa_flags = flags, .ifa_addr = (struct sockaddr *)&shown_at[i]};
    if (i)
        shown[i - 1].ifa_next = &shown[i];
}

int __wrap_getifaddrs(struct ifaddrs **list);
int __wrap_getifaddrs(struct ifaddrs **list)
{
    *list = shown;
    return 0;
}

void __wrap_freeifaddrs(struct ifaddrs *list);
void __wrap_freeifaddrs(struct ifaddrs *list)
{
    (void)list;
}

int __real_connect(int fd, const struct sockaddr *to, socklen_t bytes);

static int at_port_of(int other, int fd, const struct sockaddr_in *to)
{
    struct sockaddr_in at = *to;
    socklen_t room = sizeof at;

    getsockname(other, (struct sockaddr *)&at, &room);
    return __real_connect(fd, (const struct sockaddr *)&at, sizeof at);
}

/* Found the port, and says to be process 1. */
static int come_as_a_rogue(const struct sockaddr *to, socklen_t bytes)
{
    const char word[20] = {[16] = 1};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    if (__real_connect(fd, to, bytes) || send(fd, word, sizeof word, 0) != sizeof word)
        return -1;
    return fd;
}

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t bytes);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t bytes)
{
    struct sockaddr_in at;

    memcpy(&at, to, sizeof at);
    const int last = ntohl(at.sin_addr.s_addr) & 15;
    atomic_fetch_add(&asked[last], 1);
    switch (last) {
    case SILENT:
        return at_port_of(silent_fd, fd, &at);
    case BABBLING:
        return at_port_of(babbling_fd, fd, &at);
    case NOBODY:
        return at_port_of(nobody_fd, fd, &at);
    default:
        if (atomic_load(&rogue_fd) == 0)
            atomic_store(&rogue_fd, come_as_a_rogue(to, bytes));
        atomic_store(&last_fd, fd);
        /* It is not the first that says anything. */
        while (atomic_load(&n_babbled) < atomic_load(&asked[BABBLING]))
            sched_yield();
        return __real_connect(fd, to, bytes);
    }
}

static void *babble(void *arg)
{
    static const char noise[64] = "HTTP/1.1 400 Bad Request\r\n\r\n";
    int fd;

    (void)arg;
    while ((fd = accept(babbling_fd, NULL, NULL)) >= 0) {
        /* Left open: an end that is closed takes what it has said with it. */
        send(fd, noise, sizeof noise, MSG_NOSIGNAL);
        atomic_fetch_add(&n_babbled, 1);
    }
    return NULL;
}

static int bound(bool listens)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_ANY)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);

    assert_int_equal(bind(fd, (struct sockaddr *)&any, sizeof any), 0);
    if (listens)
        assert_int_equal(listen(fd, 8), 0);
    return fd;
}

/* --- processes --- */

struct process {
    struct bst_cluster_info info;
    struct bst_lifeline *l;
    enum bst_err err;
    pthread_t thread;
};

static struct process processes[MOST];
static int n_processes;
static pthread_barrier_t all_there;
static char board[MOST][SHOWN];

static pthread_mutex_t lost_lock = PTHREAD_MUTEX_INITIALIZER;
static int n_lost[MOST][MOST]; /* [who noticed][whom] */
static char lost_why[300];

static enum bst_err gather(void *arg, const void *mine, void *all, size_t bytes)
{
    const struct process *p = arg;

    if (bytes > SHOWN)
        return BST_E_RANGE;
    memcpy(board[p->info.process], mine, bytes);
    pthread_barrier_wait(&all_there);
    for (int i = 0; i < n_processes; i++)
        memcpy((char *)all + (size_t)i * bytes, board[i], bytes);
    pthread_barrier_wait(&all_there);
    return BST_OK;
}

static void lost(void *arg, int process, const char *why)
{
    const struct process *p = arg;

    pthread_mutex_lock(&lost_lock);
    n_lost[p->info.process][process]++;
    snprintf(lost_why, sizeof lost_why, "%s", why);
    pthread_mutex_unlock(&lost_lock);
}

static int losses(int who, int whom)
{
    pthread_mutex_lock(&lost_lock);
    int n = n_lost[who][whom];
    pthread_mutex_unlock(&lost_lock);
    return n;
}

static void *process_main(void *arg)
{
    struct process *p = arg;
    const struct bst_lifeline_cfg cfg = {
        .info = &p->info, .gather = gather, .lost = lost, .arg = p};

    p->err = bst_lifeline_open(&cfg, &p->l);
    return NULL;
}

/* Each on a machine of its own, so that addresses count. */
static void open_all(int n)
{
    n_processes = n;
    memset(n_lost, 0, sizeof n_lost);
    for (int i = 0; i < 16; i++)
        atomic_store(&asked[i], 0);
    pthread_barrier_init(&all_there, NULL, (unsigned)n);
    for (int i = 0; i < n; i++) {
        processes[i] = (struct process){
            .info = {.process = i, .n_processes = n, .host = i, .on_host = 0, .n_on_host = 1}};
        assert_int_equal(pthread_create(&processes[i].thread, NULL, process_main, &processes[i]),
                         0);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(processes[i].thread, NULL);
        assert_int_equal(processes[i].err, BST_OK);
    }
    pthread_barrier_destroy(&all_there);
}

static void close_all(void)
{
    for (int i = n_processes - 1; i >= 0; i--)
        bst_lifeline_close(processes[i].l);
}

static void wait_for_loss(void)
{
    const double until = bst_clock_now() + 60;

    while (!losses(0, 1) && bst_clock_now() < until)
        sched_yield();
    assert_int_equal(losses(0, 1), 1);
}

/* A connection was made if its breaking is noticed. */
static void break_and_notice(void)
{
    assert_int_equal(losses(0, 1), 0);
    shutdown(atomic_load(&last_fd), SHUT_RDWR);
    wait_for_loss();
    assert_string_equal(lost_why, "");
}

static void an_address_that_leads_elsewhere_is_passed_over(void **state)
{
    (void)state;
    memset(shown, 0, sizeof shown);
    show(0, "192.0.2.7", IFF_UP | IFF_RUNNING); /* it has gone in between */
    show(1, "127.0.0.4", IFF_UP);               /* SILENT */
    show(2, "127.0.0.5", IFF_UP | IFF_RUNNING); /* BABBLING */
    show(3, "127.0.0.6", IFF_UP | IFF_RUNNING); /* NOBODY */
    show(4, "127.0.0.8", IFF_UP | IFF_LOOPBACK);
    show(5, "127.0.0.9", IFF_RUNNING);
    show(6, "127.0.0.3", IFF_UP | IFF_RUNNING); /* HOST */
    atomic_store(&rogue_fd, -1);
    open_all(2);
    for (int i = HOST; i <= NOBODY; i++)
        assert_int_equal(atomic_load(&asked[i]), 1);
    assert_int_equal(atomic_load(&asked[8]) + atomic_load(&asked[9]), 0);
    break_and_notice();
    close_all();
}

static void several_that_lead_there_are_one(void **state)
{
    (void)state;
    memset(shown, 0, sizeof shown);
    show(0, "127.0.0.3", IFF_UP | IFF_RUNNING);
    show(1, "127.0.0.7", IFF_UP | IFF_RUNNING);
    atomic_store(&rogue_fd, -1);
    open_all(3);
    for (int i = 0; i < 3; i++)
        for (int k = 0; k < 3; k++)
            assert_int_equal(losses(i, k), 0);
    close_all();
}

static void who_does_not_know_the_word_is_nobody(void **state)
{
    char word[32];

    (void)state;
    memset(shown, 0, sizeof shown);
    show(0, "127.0.0.3", IFF_UP | IFF_RUNNING);
    atomic_store(&rogue_fd, 0);
    open_all(2);
    assert_true(atomic_load(&rogue_fd) > 0);
    assert_true(recv(atomic_load(&rogue_fd), word, sizeof word, 0) <= 0);
    close(atomic_load(&rogue_fd));
    break_and_notice();
    close_all();
}

static void without_a_way_there_the_run_goes_on(void **state)
{
    (void)state;
    memset(shown, 0, sizeof shown);
    show(0, "127.0.0.6", IFF_UP | IFF_RUNNING); /* NOBODY */
    open_all(2);
    assert_int_equal(losses(0, 1) + losses(1, 0), 0);
    close_all();
}

/* --- leaving --- */

static atomic_bool has_gone;

static void *leave_main(void *arg)
{
    bst_lifeline_leave(processes[1].l, "no answer", *(const double *)arg);
    atomic_store(&has_gone, true);
    return NULL;
}

static void leaving_waits_for_process_0(void **state)
{
    double seconds = 60;
    pthread_t thread;

    (void)state;
    memset(shown, 0, sizeof shown);
    show(0, "127.0.0.3", IFF_UP | IFF_RUNNING);
    atomic_store(&rogue_fd, -1);
    open_all(2);
    atomic_store(&has_gone, false);
    assert_int_equal(pthread_create(&thread, NULL, leave_main, &seconds), 0);
    wait_for_loss();
    assert_string_equal(lost_why, "no answer");
    for (int i = 0; i < 20; i++) /* it has all the occasion */
        sched_yield();
    assert_false(atomic_load(&has_gone));
    bst_lifeline_close(processes[0].l);
    pthread_join(thread, NULL);
    bst_lifeline_close(processes[1].l);
    assert_int_equal(losses(1, 0), 0);
}

static void leaving_does_not_wait_for_ever(void **state)
{
    double seconds = 0.02;

    (void)state;
    open_all(2);
    leave_main(&seconds);
    wait_for_loss();
    close_all();
}

static void quiet(void *arg, enum bst_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    (void)line;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_address_that_leads_elsewhere_is_passed_over),
        cmocka_unit_test(several_that_lead_there_are_one),
        cmocka_unit_test(who_does_not_know_the_word_is_nobody),
        cmocka_unit_test(without_a_way_there_the_run_goes_on),
        cmocka_unit_test(leaving_waits_for_process_0),
        cmocka_unit_test(leaving_does_not_wait_for_ever),
    };
    pthread_t babbler;

    bst_log_to(quiet, NULL);
    silent_fd = bound(true);
    babbling_fd = bound(true);
    nobody_fd = bound(false);
    if (pthread_create(&babbler, NULL, babble, NULL))
        return 1;
    int bad = cmocka_run_group_tests(tests, NULL, NULL);
    shutdown(babbling_fd, SHUT_RDWR);
    pthread_join(babbler, NULL);
    return bad;
}
