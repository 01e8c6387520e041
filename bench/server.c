/* A chat-completions server that answers at once, or after a fixed time, for measuring harnesses.
 *
 *     cc -O2 -o server server.c && ./server PORT LATENCY_MS [MAX_SECONDS]
 *
 * It speaks the OpenAI dialect on 127.0.0.1 only, in one thread, and keeps connections open. PORT 0 takes a free port;
 * the port is printed on the first line of standard output once the server accepts requests. It exits after
 * MAX_SECONDS (3600 unless given), so that a forgotten one does not stay.
 *
 *     POST .../chat/completions   a completion, LATENCY_MS after the last byte of the request was read
 *     GET  .../models             one model
 *     GET  /stats                 {"requests": .., "in_flight_max": .., "connections": ..}
 *     GET  /reset                 the same; the counters then restart at zero
 *
 * The completion depends only on the question, so that harnesses with different prompts around the same question get
 * the same accuracy, which shows that they did the same work. The question is the text after the last "Question:" of the
 * last message up to the end of that line, or the whole message if there is none. Only its ASCII letters and digits
 * count, so that JSON escapes and whitespace make no difference. A message with a line that starts with "A." or "A)" gets
 * the letter A, B or C; any other gets yes, no or maybe: 55, 34 and 11 times in 100.
 *
 * Two kinds of models always return the same text: a name that starts with `judge` returns a verdict in JSON on three
 * criteria, with the verification code of its prompt, and one that starts with `writer` a letter of a hundred words for
 * the judges.
 *
 * Built on poll(2), for Linux and macOS alike.
 */
#define _GNU_SOURCE
#define _DARWIN_C_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS = 1024, WAITING = 8192, ROOM = 64 << 10, LARGEST = 16 << 20 };

/* Completions of judges and writers, escaped as JSON text. */
#define CELL(name, grade) \
    "\\\"" name "\\\": {\\\"score\\\": " grade ", \\\"explanation\\\": \\\"Fits what was asked, with a gap or two.\\\"}"
static const char VERDICT[] = "{" CELL("accuracy", "4") ", " CELL("completeness", "3") ", " CELL("clarity", "5") "}";
static const char LETTER[] =
    "Dear patient,\\n\\nthank you for your question. Take the tablets once a day, in the morning, with a glass of water "
    "and with or without food, as it was agreed. Do not stop them by yourself, even if you feel better: the effect "
    "builds up over weeks and is lost within days. If you have missed a dose, take it when you think of it, unless the "
    "next one is due within twelve hours. Never take two at once. Call us if you feel dizzy, if your ankles swell, or "
    "if a rash appears. We check your blood in four weeks and decide then how to go on.\\n\\nWith kind regards,\\n"
    "your practice";

struct connection {
    char *data;       /* bytes received and not yet answered */
    size_t size, room;
    unsigned life;    /* counts the connections this slot has had, so that a late answer never reaches the next one */
};

struct reply {
    uint64_t due_us;
    int slot;
    unsigned life;
    const char *text;
    size_t prompt_tokens;
    char code[15]; /* verification code that the prompt asks a judge for; empty if it asks for none */
};

static struct pollfd polled[CONNECTIONS + 1]; /* the last is the listening socket; fd -1 is a free slot */
static struct connection connections[CONNECTIONS];
static struct reply waiting[WAITING];
static unsigned first_waiting, after_waiting;
static uint64_t latency_us, n_requests, n_connections, in_flight, in_flight_max;

static uint64_t now_us(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_nsec / 1000u;
}

static void hang_up(int slot) {
    close(polled[slot].fd);
    polled[slot].fd = -1;
    polled[slot].revents = 0;
    connections[slot].size = 0;
    connections[slot].life++;
}

/* Answers are under 2 kB, so one that does not fit in the socket's buffer means a client that has stopped reading. */
static void send_json(int slot, const char *status, const char *body) {
    char out[2048];
    int n = snprintf(out, sizeof out, "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                     status, strlen(body), body);
    if (send(polled[slot].fd, out, (size_t)n, 0) != n) hang_up(slot);
}

static void send_completion(const struct reply *reply) {
    char body[1536], key[64] = "";
    in_flight--;
    if (connections[reply->slot].life != reply->life) return; /* the client left */
    const char *text = reply->text;
    if (reply->code[0]) { /* the first key of the verdict, whose brace is left out */
        snprintf(key, sizeof key, "{\\\"verification_code\\\": \\\"%s\\\", ", reply->code);
        text++;
    }
    snprintf(body, sizeof body,
             "{\"id\":\"chatcmpl-%llu\",\"object\":\"chat.completion\",\"created\":1700000000,\"model\":\"mock\","
             "\"choices\":[{\"index\":0,\"message\":{\"role\":\"assistant\",\"content\":\"%s%s\"},\"logprobs\":null,"
             "\"finish_reason\":\"stop\"}],"
             "\"usage\":{\"prompt_tokens\":%zu,\"completion_tokens\":1,\"total_tokens\":%zu}}",
             (unsigned long long)n_requests, key, text, reply->prompt_tokens, reply->prompt_tokens + 1);
    send_json(reply->slot, "200 OK", body);
}

/* Last place in [from, end) where `word` starts, or NULL. */
static const char *find_last(const char *from, const char *end, const char *word) {
    const char *found = NULL;
    size_t n = strlen(word);
    while ((from = memmem(from, (size_t)(end - from), word, n)) != NULL) found = from++;
    return found;
}

/* The text of the last message, still escaped as JSON: moves *from and *end around it. */
static void narrow_to_last_message(const char **from, const char **end) {
    const char *at = find_last(*from, *end, "\"content\"");
    if (at == NULL) return;
    at += strlen("\"content\"");
    while (at < *end && (*at == ' ' || *at == ':')) at++;
    if (at < *end && *at == '[') { /* a list of parts: the last one that is text */
        const char *part = find_last(at, *end, "\"text\":");
        if (part != NULL) at = part + strlen("\"text\":");
    }
    while (at < *end && *at != '"') at++;
    if (at == *end) return;
    *from = ++at;
    while (at < *end && *at != '"') at += *at == '\\' ? 2 : 1;
    if (at < *end) *end = at;
}

/* Whether the request is to a model whose name begins with `word`. Within texts, quotes would be escaped. */
static int is_to(const char *from, const char *end, const char *word) {
    while ((from = memmem(from, (size_t)(end - from), "\"model\"", 7)) != NULL) {
        for (from += 7; from < end && *from == ' '; from++) {}
        if (from == end || *from != ':') continue; /* a text, not a key */
        for (from++; from < end && (*from == ' ' || *from == '"'); from++) {}
        return (size_t)(end - from) >= strlen(word) && memcmp(from, word, strlen(word)) == 0;
    }
    return 0;
}

static const char *answer_to(const char *from, const char *end) {
    if (is_to(from, end, "judge")) return VERDICT;
    if (is_to(from, end, "writer")) return LETTER;
    narrow_to_last_message(&from, &end);
    int lettered = memmem(from, (size_t)(end - from), "\\nA.", 4) != NULL ||
                   memmem(from, (size_t)(end - from), "\\nA)", 4) != NULL;
    const char *question = find_last(from, end, "Question:");
    if (question != NULL) {
        from = question + strlen("Question:");
        const char *line_end = memmem(from, (size_t)(end - from), "\\n", 2);
        if (line_end != NULL) end = line_end;
    }
    uint32_t hash = 2166136261u; /* FNV-1a, 32 bits */
    for (; from < end; from++) {
        char c = *from;
        if (c == '\\') {
            from += from + 1 < end && from[1] == 'u' ? 5 : 1;
        } else if ((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z')) {
            hash = (hash ^ (unsigned char)c) * 16777619u;
        }
    }
    unsigned percent = (hash ^ (hash >> 15)) % 100;
    int choice = percent < 55 ? 0 : percent < 89 ? 1 : 2;
    return lettered ? (const char *[]){"A", "B", "C"}[choice] : (const char *[]){"yes", "no", "maybe"}[choice];
}

/* Copies the verification code at the end of a judge's prompt. */
static void find_code(char *code, size_t size, const char *from, const char *end) {
    static const char before[] = "The verification code of this request is ";
    const char *at = find_last(from, end, before);
    if (at != NULL && (size_t)(end - at) > strlen(before) + size) memcpy(code, at + strlen(before), size);
}

static void take_question(int slot, const char *body, size_t n) {
    struct reply reply = {now_us() + latency_us, slot, connections[slot].life, answer_to(body, body + n), n / 4, ""};
    if (reply.text == VERDICT) find_code(reply.code, sizeof reply.code - 1, body, body + n);
    n_requests++;
    if (++in_flight > in_flight_max) in_flight_max = in_flight;
    if (latency_us == 0) {
        send_completion(&reply);
    } else if (after_waiting - first_waiting == WAITING) { /* more than any harness under measurement sends */
        in_flight--;
        send_json(slot, "503 Service Unavailable", "{\"error\":{\"message\":\"too many requests wait\"}}");
    } else {
        waiting[after_waiting++ % WAITING] = reply; /* one latency for all: first in, first out */
    }
}

static void send_stats(int slot, int reset) {
    char body[160];
    snprintf(body, sizeof body, "{\"requests\": %llu, \"in_flight_max\": %llu, \"connections\": %llu}\n",
             (unsigned long long)n_requests, (unsigned long long)in_flight_max, (unsigned long long)n_connections);
    if (reset) {
        n_requests = n_connections = 0;
        in_flight_max = in_flight;
    }
    send_json(slot, "200 OK", body);
}

/* Bytes of body that the header lines announce, or -1 where the length is not given in advance. */
static long body_length(const char *head, const char *end) {
    for (const char *line = head; line < end; line++) {
        if (strncasecmp(line, "content-length:", 15) == 0) return strtol(line + 15, NULL, 10);
        if (strncasecmp(line, "transfer-encoding:", 18) == 0) return -1;
        line = memchr(line, '\n', (size_t)(end - line));
        if (line == NULL) break;
    }
    return 0;
}

static int path_ends(const char *head, const char *end, const char *tail) {
    const char *path = memchr(head, ' ', (size_t)(end - head));
    const char *path_end = path ? memchr(path + 1, ' ', (size_t)(end - path - 1)) : NULL;
    size_t n = strlen(tail);
    return path_end != NULL && (size_t)(path_end - path - 1) >= n && memcmp(path_end - n, tail, n) == 0;
}

static void serve(int slot, const char *head, const char *end, size_t body_size) {
    int is_post = memcmp(head, "POST ", 5) == 0;
    if (is_post && path_ends(head, end, "/chat/completions")) take_question(slot, end, body_size);
    else if (!is_post && path_ends(head, end, "/stats")) send_stats(slot, 0);
    else if (!is_post && path_ends(head, end, "/reset")) send_stats(slot, 1);
    else if (!is_post && path_ends(head, end, "/models"))
        send_json(slot, "200 OK", "{\"object\":\"list\",\"data\":[{\"id\":\"mock\",\"object\":\"model\"}]}");
    else send_json(slot, "404 Not Found", "{\"error\":{\"message\":\"nothing here\"}}");
}

/* Serve every request that has arrived whole. */
static void read_requests(int slot) {
    struct connection *c = &connections[slot];
    unsigned life = c->life;
    size_t done = 0;
    while (c->size - done >= 5) {
        char *head = c->data + done;
        char *end = memmem(head, c->size - done, "\r\n\r\n", 4);
        if (end == NULL) break;
        end += 4;
        long body = body_length(head, end);
        if (body < 0 || body > LARGEST) {
            send_json(slot, "411 Length Required", "{\"error\":{\"message\":\"send a Content-Length\"}}");
            if (c->life == life) hang_up(slot);
            return;
        }
        if ((size_t)(c->data + c->size - end) < (size_t)body) break;
        serve(slot, head, end, (size_t)body);
        if (c->life != life) return;
        done = (size_t)(end - c->data) + (size_t)body;
    }
    if (done > 0) memmove(c->data, c->data + done, c->size - done);
    c->size -= done;
}

static void receive(int slot) {
    struct connection *c = &connections[slot];
    if (c->room - c->size < ROOM / 4) {
        size_t room = c->room ? c->room * 2 : ROOM;
        char *data = room > 2u * LARGEST ? NULL : realloc(c->data, room);
        if (data == NULL) {
            hang_up(slot);
            return;
        }
        c->data = data;
        c->room = room;
    }
    ssize_t n = recv(polled[slot].fd, c->data + c->size, c->room - c->size - 1, 0);
    if (n > 0) {
        c->size += (size_t)n;
        c->data[c->size] = 0; /* ends the numbers that strtol reads */
        read_requests(slot);
    } else if (n == 0 || (errno != EAGAIN && errno != EINTR)) {
        hang_up(slot);
    }
}

/* Take every new connection; return the number of slots that may be in use. */
static int welcome(int used) {
    int fd, one = 1;
    while ((fd = accept(polled[CONNECTIONS].fd, NULL, NULL)) >= 0) {
        int slot = 0;
        while (slot < CONNECTIONS && polled[slot].fd >= 0) slot++;
        if (slot == CONNECTIONS) {
            close(fd);
            continue;
        }
        fcntl(fd, F_SETFL, O_NONBLOCK);
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        polled[slot] = (struct pollfd){.fd = fd, .events = POLLIN};
        n_connections++;
        if (slot >= used) used = slot + 1;
    }
    return used;
}

static int listen_on(int port) {
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    struct sockaddr_in address = {0};
    socklen_t size = sizeof address;
    address.sin_family = AF_INET;
    address.sin_port = htons((uint16_t)port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) != 0 || listen(fd, CONNECTIONS) != 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) < 0 || getsockname(fd, (struct sockaddr *)&address, &size) != 0) {
        fprintf(stderr, "server: cannot listen on 127.0.0.1:%d: %s\n", port, strerror(errno));
        return -1;
    }
    printf("%d\n", ntohs(address.sin_port));
    fflush(stdout);
    return fd;
}

/* Wait until something arrives or the next answer is due. Linux waits to the microsecond, others to the next ms. */
static int wait_for(struct pollfd *these, int n) {
    uint64_t left_us = 1000000, now = now_us();
    if (first_waiting != after_waiting) {
        uint64_t due = waiting[first_waiting % WAITING].due_us;
        left_us = due <= now ? 0 : due - now;
    }
#ifdef __linux__
    struct timespec left = {(time_t)(left_us / 1000000), (long)(left_us % 1000000) * 1000};
    return ppoll(these, (nfds_t)n, &left, NULL);
#else
    return poll(these, (nfds_t)n, (int)((left_us + 999) / 1000));
#endif
}

/* A number of at least 0, or -1. */
static double number(const char *text) {
    char *end;
    double value = strtod(text, &end);
    return *text && !*end && value >= 0 ? value : -1;
}

int main(int argc, char **argv) {
    double port = argc > 1 ? number(argv[1]) : -1, latency_ms = argc > 2 ? number(argv[2]) : -1;
    double seconds = argc > 3 ? number(argv[3]) : 3600;
    if (argc > 4 || port < 0 || port > 65535 || latency_ms < 0 || seconds < 0) {
        fprintf(stderr, "usage: server PORT LATENCY_MS [MAX_SECONDS]\n");
        return 2;
    }
    signal(SIGPIPE, SIG_IGN);
    latency_us = (uint64_t)(latency_ms * 1000);
    for (int slot = 0; slot < CONNECTIONS; slot++) polled[slot].fd = -1;
    int listener = listen_on((int)port), used = 0;
    if (listener < 0) return 1;
    polled[CONNECTIONS] = (struct pollfd){.fd = listener, .events = POLLIN};
    uint64_t stop = now_us() + (uint64_t)(seconds * 1e6);
    while (now_us() < stop) {
        /* only the slots in use are polled: the listening socket is copied behind the last of them */
        struct pollfd spare = polled[used];
        polled[used] = polled[CONNECTIONS];
        int ready = wait_for(polled, used + 1);
        short knocking = polled[used].revents;
        if (used < CONNECTIONS) polled[used] = spare;
        for (int slot = 0; ready > 0 && slot < used; slot++)
            if (polled[slot].fd >= 0 && polled[slot].revents) receive(slot);
        if (ready > 0 && knocking) used = welcome(used);
        for (uint64_t now = now_us(); first_waiting != after_waiting && waiting[first_waiting % WAITING].due_us <= now;)
            send_completion(&waiting[first_waiting++ % WAITING]);
    }
    return 0;
}
