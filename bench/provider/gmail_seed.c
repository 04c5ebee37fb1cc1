/*
 * Builds the seeded mails as RFC 5322 texts and puts them into the mailbox, as if they had come in.
 */
#include "provider/gmail_seed.h"

#include <time.h>

#include "base/encode.h"
#include "provider/gmail.h"

static const char self[] = "Sam Rivera <" GMAIL_ADDRESS ">";

static const struct {
    unsigned flag;
    unsigned label;
} flag_labels[] = {
    {SEED_UNREAD, GMAIL_UNREAD},
    {SEED_STARRED, GMAIL_STARRED},
    {SEED_IMPORTANT, GMAIL_IMPORTANT},
    {SEED_SENT, GMAIL_SENT},
    {SEED_PROMOTIONS, GMAIL_PROMOTIONS},
    {SEED_UPDATES, GMAIL_UPDATES},
    {SEED_SOCIAL, GMAIL_SOCIAL},
    {SEED_FORUMS, GMAIL_FORUMS},
    {SEED_SPAM, GMAIL_SPAM},
    {SEED_TRASH, GMAIL_TRASH},
    {SEED_INBOX, GMAIL_INBOX},
    {SEED_LABEL, GMAIL_SYSTEM_LABELS},
    {SEED_DRAFT, GMAIL_DRAFT},
};

static void add_date(struct buf *out, int64_t time_ms)
{
    time_t seconds = (time_t)(time_ms / 1000);
    struct tm tm;
    char text[64];
    gmtime_r(&seconds, &tm);
    strftime(text, sizeof(text), "Date: %a, %d %b %Y %H:%M:%S +0000\r\n", &tm);
    buf_append_cstr(out, text);
}

/* A header value; as encoded word where it is not ASCII. */
static void add_header(struct buf *out, const char *name, const char *value)
{
    bool is_ascii = true;
    for (const char *p = value; *p; p++)
        is_ascii &= (unsigned char)*p < 0x80;
    buf_printf(out, "%s: ", name);
    if (is_ascii) {
        buf_append_cstr(out, value);
    } else {
        buf_append_cstr(out, "=?UTF-8?B?");
        encode_base64(out, slice_cstr(value));
        buf_append_cstr(out, "?=");
    }
    buf_append_cstr(out, "\r\n");
}

/* Bytes in lines of 76 characters of base64. */
static void add_base64(struct buf *out, slice bytes)
{
    for (size_t i = 0; i < bytes.len; i += 57) {
        encode_base64(out, slice_first(slice_from(bytes, i), 57));
        buf_append_cstr(out, "\r\n");
    }
}

static void add_text(struct buf *out, const char *type, slice body)
{
    buf_printf(out, "Content-Type: %s; charset=\"UTF-8\"\r\n", type);
    buf_append_cstr(out, "Content-Transfer-Encoding: base64\r\n\r\n");
    add_base64(out, body);
}

static void add_html(struct buf *out, slice body)
{
    struct buf html;
    buf_init(&html, 64 * 1024);
    buf_append_cstr(&html, "<html><body><p>");
    while (body.len) {
        slice line = slice_split(&body, '\n');
        buf_append(&html, line);
        buf_append_cstr(&html, line.len ? "<br>\n" : "</p>\n<p>");
    }
    buf_append_cstr(&html, "</p></body></html>\n");
    add_text(out, "text/html", buf_slice(&html));
    buf_deinit(&html);
}

static void add_alternative(struct buf *out, uint64_t id, slice body)
{
    buf_printf(out, "Content-Type: multipart/alternative; boundary=\"alt%llx\"\r\n\r\n",
               (unsigned long long)id);
    buf_printf(out, "--alt%llx\r\n", (unsigned long long)id);
    add_text(out, "text/plain", body);
    buf_printf(out, "--alt%llx\r\n", (unsigned long long)id);
    add_html(out, body);
    buf_printf(out, "--alt%llx--\r\n", (unsigned long long)id);
}

/* Something of the right kind and of a believable size. */
static void add_attachment(struct buf *out, const struct gmail_seed_mail *mail, struct rng *rng)
{
    struct buf bytes;
    buf_init(&bytes, 64 * 1024);
    const char *type = "application/pdf";
    if (mail->flags & SEED_CSV) {
        type = "text/csv";
        buf_append_cstr(&bytes, "date,amount,currency,reference\n");
        for (unsigned i = 1; i <= 40; i++)
            buf_printf(&bytes, "2026-%02u-%02u,%llu.%02llu,EUR,INV-%04u\n", i % 12 + 1, i % 28 + 1,
                       (unsigned long long)rng_below(rng, 900) + 10,
                       (unsigned long long)rng_below(rng, 100), 4200 + i);
    } else {
        bool is_image = mail->flags & SEED_IMAGE;
        type = is_image ? "image/png" : type;
        buf_append(&bytes, is_image ? SLICE("\x89PNG\r\n\x1a\n") : SLICE("%PDF-1.7\n"));
        for (unsigned i = 0; i < 2500; i++)
            buf_append_char(&bytes, (char)rng_below(rng, 256));
        buf_append(&bytes, is_image ? SLICE("IEND\xae\x42\x60\x82") : SLICE("\n%%EOF\n"));
    }
    buf_printf(out, "Content-Type: %s; name=\"%s\"\r\n", type, mail->filename);
    buf_printf(out, "Content-Disposition: attachment; filename=\"%s\"\r\n", mail->filename);
    buf_append_cstr(out, "Content-Transfer-Encoding: base64\r\n\r\n");
    add_base64(out, buf_slice(&bytes));
    buf_deinit(&bytes);
}

static void add_content(struct buf *out, const struct gmail_seed_mail *mail, uint64_t id,
                        struct rng *rng)
{
    slice body = slice_cstr(mail->body);
    buf_append_cstr(out, "MIME-Version: 1.0\r\n");
    if (mail->filename) {
        buf_printf(out, "Content-Type: multipart/mixed; boundary=\"mix%llx\"\r\n\r\n--mix%llx\r\n",
                   (unsigned long long)id, (unsigned long long)id);
        if (mail->flags & SEED_HTML)
            add_alternative(out, id, body);
        else
            add_text(out, "text/plain", body);
        buf_printf(out, "--mix%llx\r\n", (unsigned long long)id);
        add_attachment(out, mail, rng);
        buf_printf(out, "--mix%llx--\r\n", (unsigned long long)id);
    } else if (mail->flags & SEED_HTML_ONLY) {
        add_html(out, body);
    } else if (mail->flags & SEED_HTML) {
        add_alternative(out, id, body);
    } else {
        add_text(out, "text/plain", body);
    }
}

static void add_reference(struct buf *out, unsigned thread, const char *name)
{
    buf_printf(out, "%s: <%llx@mail.example.com>\r\n", name,
               (unsigned long long)(GMAIL_SEED_ID + thread));
}

static void build(struct buf *out, const struct gmail_seed_mail *mail, uint64_t id, int64_t time_ms,
                  struct rng *rng)
{
    if (mail->from) {
        buf_append_cstr(out, "Delivered-To: " GMAIL_ADDRESS "\r\n"
                             "Received: by 2002:a05:6402:1f0a with SMTP id x10csp; ");
        buf_append_cstr(out, "Fri, 20 Nov 2026 08:00:00 -0800 (PST)\r\n");
    }
    add_header(out, "From", mail->from ? mail->from : self);
    add_header(out, "To", mail->to ? mail->to : self);
    add_header(out, "Subject", mail->subject);
    add_date(out, time_ms);
    buf_printf(out, "Message-ID: <%llx@mail.example.com>\r\n", (unsigned long long)id);
    if (mail->thread) {
        add_reference(out, mail->thread, "In-Reply-To");
        add_reference(out, mail->thread, "References");
    }
    if (mail->flags & (SEED_PROMOTIONS | SEED_FORUMS))
        buf_append_cstr(out, "List-Unsubscribe: <https://example.com/unsubscribe>\r\n");
    add_content(out, mail, id, rng);
}

static bool insert(struct gmail *gmail, size_t k, int64_t now_us)
{
    const struct gmail_seed_mail *mail = &gmail_seed_mails[k - 1];
    struct rng *rng = &gmail->provider->rng;
    int64_t jitter_ms = (int64_t)rng_below(rng, 40 * 60 * 1000);
    struct gmail_new_message new = {.id = GMAIL_SEED_ID + k,
                                    .time_ms = now_us / 1000 - (int64_t)mail->age_hours * 3600000 -
                                               jitter_ms};
    unsigned labels[ARRAY_LEN(flag_labels) + 1];
    for (size_t i = 0; i < ARRAY_LEN(flag_labels); i++)
        if (mail->flags & flag_labels[i].flag)
            labels[new.label_count++] = flag_labels[i].label;
    unsigned categories = SEED_PROMOTIONS | SEED_UPDATES | SEED_SOCIAL | SEED_FORUMS;
    if (mail->flags & SEED_INBOX && !(mail->flags & categories))
        labels[new.label_count++] = GMAIL_PERSONAL;
    new.labels = labels;
    struct buf raw;
    buf_init(&raw, 1024 * 1024);
    build(&raw, mail, new.id, new.time_ms, rng);
    new.raw = buf_slice(&raw);
    struct err err;
    struct gmail_message *message = buf_is_ok(&raw) ? gmail_insert(gmail, &new, &err) : NULL;
    buf_deinit(&raw);
    if (message && mail->flags & SEED_DRAFT)
        return gmail_draft_add(gmail, message,
                               UINT64_C(7190000000000000000) + gmail->draft_count + 1) != NULL;
    return message != NULL;
}

bool gmail_seed(struct gmail *gmail, int64_t now_us)
{
    /* The first user label gets the number behind the system's: SEED_LABEL relies on it. */
    if (!gmail_label_new(gmail, SLICE("Label_1"), SLICE("Receipts"), true))
        return false;
    gmail->next_label = 1;
    /* Oldest first, so that a thread's beginning is there before its answers. */
    for (size_t k = gmail_seed_count; k > 0; k--)
        if (!gmail_seed_mails[k - 1].thread && !insert(gmail, k, now_us))
            return false;
    for (size_t k = gmail_seed_count; k > 0; k--)
        if (gmail_seed_mails[k - 1].thread && !insert(gmail, k, now_us))
            return false;
    return true;
}
