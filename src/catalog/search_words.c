/*
 * What search knows of English: words that say nothing of what is wanted, and words that people use
 * for one another. Data: a word more is a line here.
 */
#include "catalog/search_index.h"

const struct search_synonyms search_synonyms[] = {
    /* what is asked */
    {"what which where when", "list get find", 0.6f},
    {"who", "list user member people", 0.6f},

    /* what is done */
    {"create make new add", NULL, 0.85f},
    {"write compose draft", NULL, 0.6f},
    {"write", "send post", 0.6f},
    {"read", "list", 0.6f},
    {"post publish send", NULL, 0.7f},
    {"send", "mail email", 0.5f},
    {"tell notify inform announce alert say", "send post message", 0.75f},
    {"open", "get create", 0.75f},
    {"prepare", "draft create", 0.7f},
    {"insert append put log attach", "add append create", 0.75f},
    {"add insert", "append", 0.85f},
    {"schedule book plan arrange", "create event schedule", 0.8f},
    {"upload save store", "create upload write", 0.7f},
    {"start open begin", "create", 0.4f},
    {"get read fetch show view retrieve see display load", NULL, 0.8f},
    {"describe details info inspect metadata", "get", 0.6f},
    {"list show all which browse enumerate", NULL, 0.75f},
    {"find search look locate lookup discover", NULL, 0.85f},
    {"find search look locate", "query list", 0.6f},
    {"filter sort", "query list", 0.7f},
    {"query", "search list", 0.5f},
    {"download export", "get", 0.6f},
    {"download export extract", NULL, 0.6f},
    {"update change edit modify set alter", NULL, 0.85f},
    {"rename reword correct fix adjust", "update change", 0.8f},
    {"overwrite replace write fill", "update", 0.75f},
    {"reschedule postpone shift delay", "update change move", 0.75f},
    {"complete finish close resolve done tick", "update close complete", 0.7f},
    {"mark set", "update", 0.6f},
    {"delete remove erase destroy drop wipe", NULL, 0.85f},
    {"delete remove discard throw bin", "trash archive", 0.7f},
    {"trash bin", NULL, 0.85f},
    {"clear empty wipe", NULL, 0.85f},
    {"cancel", "delete remove", 0.75f},
    {"permanently forever good irrevocably", NULL, 0.85f},
    {"permanently irrevocably forever", "delete", 0.7f},
    {"restore undelete untrash recover", NULL, 0.85f},
    {"reply answer respond", NULL, 0.9f},
    {"move transfer", NULL, 0.8f},
    {"copy duplicate clone", NULL, 0.9f},
    {"share grant give invite", NULL, 0.6f},
    {"revoke unshare withdraw", "remove permission access", 0.7f},
    {"stop", "remove delete", 0.5f},
    {"count many number", NULL, 0.7f},
    {"assign", "update assignee", 0.6f},
    {"run trigger execute start dispatch", NULL, 0.7f},

    {"submit raise report register", "create", 0.7f},
    {"check access obtain consult", "get list", 0.6f},
    {"history log activity", NULL, 0.6f},
    {"launch rerun kick", "run start", 0.75f},
    {"accept approve", "merge review approve", 0.6f},
    {"commit push", "write commit create", 0.7f},
    {"forward pass relay", "forward", 0.8f},
    {"purge eliminate scrap", "delete", 0.8f},
    {"refund reimburse", NULL, 0.85f},
    {"subscribe enroll", "create add subscription", 0.6f},
    {"react reaction emoji thumb", NULL, 0.8f},

    /* what it is done to */
    {"mail email message", NULL, 0.85f},
    {"conversation thread discussion", NULL, 0.85f},
    {"folder directory", NULL, 0.9f},
    {"folder", "label", 0.6f},
    {"file document doc", NULL, 0.8f},
    {"attachment attached", NULL, 0.9f},
    {"event meeting appointment", NULL, 0.9f},
    {"call", "event meeting", 0.5f},
    {"agenda", "event calendar", 0.7f},
    {"free available availability busy slot", NULL, 0.85f},
    {"recurring repeating recurrence series", NULL, 0.85f},
    {"occurrence instance", NULL, 0.85f},
    {"guest attendee participant", NULL, 0.9f},
    {"spreadsheet workbook excel", NULL, 0.85f},
    {"tab worksheet sheet", NULL, 0.8f},
    {"cell value", NULL, 0.8f},
    {"row line record entry", NULL, 0.8f},
    {"page note", NULL, 0.7f},
    {"row record entry task", "page", 0.5f},
    {"table database", NULL, 0.85f},
    {"column field property schema", NULL, 0.75f},
    {"paragraph text content block body", NULL, 0.6f},
    {"todo checkbox", "block task", 0.6f},
    {"user person people member", NULL, 0.85f},
    {"colleague everybody everyone", "user people member", 0.6f},
    {"card task", NULL, 0.5f},
    {"bug defect", "issue ticket", 0.75f},
    {"sum total balance", NULL, 0.6f},
    {"permission access", NULL, 0.8f},
    {"public", "share anyone", 0.7f},
    {"task issue ticket", NULL, 0.75f},
    {"repository repo", NULL, 0.95f},
    {"pr mr", "pull merge request", 0.9f},
    {"pull merge", NULL, 0.6f},
    {"comment feedback remark", NULL, 0.8f},
    {"whoami", "profile self me", 0.9f},
    {"account profile", NULL, 0.7f},
    {"photo picture image", NULL, 0.85f},
    {"customer client contact", NULL, 0.6f},
    {"payment charge", NULL, 0.7f},
    {"sms", "message text", 0.7f},
    {"channel room", NULL, 0.7f},
};

const size_t search_synonyms_count = sizeof(search_synonyms) / sizeof(*search_synonyms);

const struct search_implied search_implied[] = {
    {"comment note review draft", "create"},
    {"email mail message dm text", "send"},
    {"label tag star flag", "modify"},
};

const size_t search_implied_count = sizeof(search_implied) / sizeof(*search_implied);

/* Sorted by bytes: they are looked up by halving. */
const char *const search_stop_words[] = {
    "a",        "about",    "also",    "am",        "an",   "and",     "another",    "any",
    "anything", "are",      "as",      "at",        "be",   "by",      "can",        "could",
    "did",      "do",       "does",    "each",      "else", "every",   "everything", "for",
    "from",     "had",      "has",     "have",      "he",   "her",     "here",       "him",
    "his",      "how",      "i",       "if",        "in",   "into",    "is",         "it",
    "its",      "just",     "let",     "me",        "mean", "meaning", "means",      "meant",
    "more",     "my",       "need",    "not",       "now",  "of",      "on",         "or",
    "other",    "our",      "own",     "please",    "s",    "she",     "should",     "so",
    "some",     "somebody", "someone", "something", "than", "that",    "the",        "their",
    "them",     "then",     "there",   "these",     "they", "this",    "those",      "to",
    "up",       "us",       "use",     "using",     "via",  "want",    "was",        "we",
    "were",     "what",     "when",    "where",     "who",  "will",    "with",       "without",
    "would",    "you",      "your",
};

const size_t search_stop_word_count = sizeof(search_stop_words) / sizeof(*search_stop_words);

const char *const search_prepositions[] = {
    "about", "at", "by", "from", "in", "inside", "into", "of", "on", "to", "with", "without",
};

const size_t search_preposition_count = sizeof(search_prepositions) / sizeof(*search_prepositions);

const char *const search_questions[] = {
    "are", "did", "do", "does", "has", "have", "how", "is", "what", "when", "where", "which", "who",
};

const size_t search_question_count = sizeof(search_questions) / sizeof(*search_questions);
