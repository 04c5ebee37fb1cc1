/*
 * What is known of English words: which part they play in a sentence, and which stand for one
 * another. Data: a new word is one more in a line. Phrases are in idioms.c. Words are
 * stemmed when the index is built, so regular forms need no entry, irregular ones do. Each line
 * of synonyms shifts the ranking of many queries: tests/unit/search/test_search_quality.c
 * measures it.
 */
#include "search/reading.h"

const struct search_class search_classes[] = {
    /* persons, auxiliaries, politeness: they say nothing of what is wanted */
    {"a an the another any anything each else every everything some something", WORD_STOP},
    {"also just please kindly maybe perhaps quickly now then again too quite still yet even",
     WORD_STOP},
    {"am are be been being is isn was wasn were aren can cannot could couldn did didn do does "
     "doesn "
     "doing don had has have having hasn haven shall should shouldn will won would wouldn may "
     "might must",
     WORD_STOP},
    {"t s m d ll re ve ok okay yes hi hey hello", WORD_STOP},
    {"he her him his i it its itself me my mine myself our ours she their them they us we you your",
     WORD_STOP},
    {"got gotten gets getting there these this those here himself herself themselves somebody "
     "someone anybody anyone",
     WORD_STOP},
    {"let need needs want wants wanted like use using want mean meaning means meant", WORD_STOP},
    {"so as if or and but not than more other own such same very much well", WORD_STOP},
    {"about at by for from in inside into of off on onto over to up with without via than out down "
     "under through between during until till since because per",
     WORD_STOP},
    {"that which who whom whose what when where why how whether", WORD_STOP},

    /* a clause that begins so says how things are; another may say what to do */
    {"i we he she it they there the a an my our your his her their this these those that if since "
     "because some all every yes no",
     WORD_SUBJECT},
    {"are did do does has have how is was were what when where which who whose why am isn aren",
     WORD_QUESTION},
    {"the a an my our your his her their its this these those every each some any no",
     WORD_DETERMINER},
    {"a an another", WORD_INDEFINITE},
    {"about at by from in inside into of on onto over to under up with without for through via "
     "between during until till per using",
     WORD_PREPOSITION},

    /* what follows is reported, not wanted */
    {"that whether about saying says asking telling stating regarding concerning because wishing "
     "explaining",
     WORD_OPENS},
    {"who whom whose which where when how what why if", WORD_RELATIVE},
    {"i we he she they", WORD_TELLER},
    {"called named titled entitled labelled labeled", WORD_NAMES},
    {"say says tell ask remind reply answer respond email mail message text write comment note "
     "post "
     "announce inform notify warn confirm mention explain ping thank thanks apologize apologise "
     "congratulate congrats invite wish let alert brief update nudge dm sms whatsapp contact "
     "assure "
     "promise greet drop shoot beg urge tip report state remark know",
     WORD_SAYS},
    {"remind ask tell beg urge warn nudge notify inform alert ping text sms dm call phone ring",
     WORD_ASKS},
    {"thank thanks apologize apologise congratulate congrats praise blame wish ask", WORD_THANKS},

    {"mail mails email emails message messages newsletter newsletters notification notifications",
     WORD_LETTER},
    {"spreadsheet workbook calendar wiki crm inbox mailbox webhook board", WORD_LOCATION},
    {"sms email emails mail mails fax whatsapp", WORD_CHANNEL},
    /* apps that people ask for, whether there are manifests of them or not */
    {"bluesky facebook imessage instagram linkedin mastodon pinterest reddit skype snapchat tiktok "
     "twitter viber wechat youtube zoom",
     WORD_CHANNEL | WORD_LOCATION},
    {"api app service software platform cloud online server", WORD_GENERIC},

    /* times and numbers */
    {"monday tuesday wednesday thursday friday saturday sunday today tomorrow yesterday tonight "
     "morning afternoon evening night noon midnight january february march april june july august "
     "september october november december week weeks month months year years day days hour hours "
     "minute minutes quarter oclock am pm next last one two three four five six seven eight nine "
     "ten "
     "half twenty thirty forty fifty hundred thousand ago",
     WORD_TIME},
};

const size_t search_classes_count = sizeof(search_classes) / sizeof(*search_classes);

const struct search_synonyms search_synonyms[] = {
    /* what is asked */
    {"what which where when", "list find search", NEAR},
    {"who", "list user member people", NEAR},

    /* forms that no stemmer knows */
    {"sent", "send", SAME},
    {"told", "tell", SAME},
    {"wrote written writing", "write", SAME},
    {"said says", "say", SAME},
    {"paid", "pay", SAME},
    {"gave given", "give", SAME},
    {"took taken", "take", SAME},
    {"made", "make", SAME},
    {"found", "find", SAME},
    {"met", "meet", SAME},
    {"came", "come", SAME},
    {"left", "leave", SAME},
    {"spent", "spend", SAME},
    {"lent", "lend", SAME},
    {"built", "build", SAME},
    {"brought", "bring", SAME},
    {"kept", "keep", SAME},
    {"bought", "buy", SAME},
    {"sold", "sell", SAME},
    {"threw thrown", "throw", SAME},
    {"rang rung", "ring", SAME},

    /* what is done: to make */
    {"create make new add", NULL, SAME},
    {"insert append attach", "add append create", SAME},
    {"put", "add append create set update write move", NEAR},
    {"add insert", "append", SAME},
    {"submit raise file register enter record log track", "create add", SAME | AS_VERB},
    {"start open begin generate build produce establish", "create", NEAR | AS_VERB},
    {"log jot record track enter", "append", SAME | AS_VERB},
    {"report order request", "create", NEAR | AS_VERB},
    {"prepare", "draft create", SAME},
    {"need", "create", NEAR},
    {"write compose draft", NULL, NEAR},
    {"upload save store keep", "create upload write save", SAME | AS_VERB},
    {"jot capture", "create append add note", SAME},
    {"import feed ingest load sync", "upsert create add import", SAME},
    {"propose suggest", "create", NEAR},
    {"schedule book plan arrange organize organise block reserve", "create event schedule",
     SAME | AS_VERB},
    {"subscribe enroll enrol", "create add subscription", NEAR},
    {"collect gather", "create list", NEAR},

    /* to say */
    {"post publish send", NULL, SAME},
    {"send", "mail email", NEAR},
    {"write", "send post", NEAR},
    {"tell notify inform announce alert say ping remind warn ask nudge brief dm thank apologize "
     "congratulate greet wish contact assure",
     "send post", SAME},
    {"tell say remind ask mention explain state", "comment reply note", NEAR},
    {"share broadcast blast circulate distribute", "send post", NEAR | AS_VERB},
    {"reply answer respond", NULL, SAME},
    {"forward pass relay", "forward", SAME | AS_VERB},
    {"text sms", "sms message send", SAME},
    {"ring phone dial telephone", "call", SAME | AS_VERB},
    {"schedule", "later", NEAR},

    /* to see */
    {"get read fetch show view retrieve see display load", NULL, SAME},
    {"describe details info inspect metadata", "get", NEAR},
    {"list show all which browse enumerate", NULL, SAME},
    {"find search look locate lookup discover seek", NULL, SAME},
    {"find search look locate", "query list", NEAR},
    {"filter sort", "query list", SAME},
    {"query", "search list", NEAR},
    {"read", "list", NEAR},
    {"open", "get create", NEAR},
    {"download export", "get", NEAR},
    {"download export extract pull", NULL, NEAR},
    {"check access obtain consult review know tell say", "get list", NEAR | AS_VERB},
    {"count many number", NULL, SAME},
    {"history log", NULL, NEAR},
    {"recent latest newest last", "list history", NEAR},
    {"lately recently", "list history recent", NEAR},
    {"summarize summarise recap digest", "read list get", NEAR},
    {"overview rundown roundup", "list", NEAR},
    {"grab peek glance", "get", SAME | AS_VERB},
    {"tally", "count", SAME},

    /* to change */
    {"update change edit modify set alter", NULL, SAME},
    {"rename reword correct fix adjust amend revise tweak mend", "update change edit", SAME},
    {"overwrite replace write fill", "update", SAME},
    {"reschedule postpone shift delay defer", "update change move reschedule", SAME},
    {"complete finish close resolve done tick solve", "update close complete status", SAME},
    {"finished closed solved completed won lost", "update status", NEAR},
    {"mark set bump raise lower", "update", NEAR | AS_VERB},
    {"priority urgent deadline due status stage", "update", NEAR},
    {"wrong incorrect outdated stale obsolete typo misspelt misspelled mistake", "update edit",
     NEAR},
    {"move transfer drag relocate", NULL, SAME},
    {"copy duplicate clone", NULL, SAME},
    {"assign delegate", "update assignee assign", NEAR},
    {"escalate", "update assign priority", NEAR},
    {"reassign", "assign", SAME},
    {"reopen", "update change close status", SAME},
    {"swap substitute", "replace update", SAME | AS_VERB},
    {"upgrade downgrade", "update subscription", NEAR},
    {"merge land", NULL, SAME},
    {"accept approve", "merge review approve", NEAR},
    {"commit push", "write commit create", SAME},
    {"ship release publish", "release create", NEAR},
    {"react reaction emoji thumb", NULL, SAME},
    {"smiley heart popper clap", "reaction emoji", NEAR},
    {"stick pin", NULL, SAME},
    {"connect link relate associate tie", NULL, SAME},
    {"mark flag star label tag", NULL, NEAR},

    /* to take away */
    {"delete remove erase destroy drop wipe", NULL, SAME},
    {"delete remove discard throw bin", "trash archive", SAME},
    {"trash bin", NULL, SAME},
    {"clear empty wipe", NULL, SAME},
    {"strike", "delete remove", SAME | AS_VERB},
    {"cancel", "delete remove", SAME},
    {"purge eliminate scrap", "delete", SAME},
    {"ditch chuck toss junk", "delete trash", SAME | AS_VERB},
    {"permanently forever good irrevocably", NULL, SAME},
    {"permanently irrevocably forever", "delete", SAME},
    {"restore undelete untrash recover", NULL, SAME},
    {"rescue salvage revive resurrect", "restore", SAME},
    {"revoke unshare withdraw", NULL, SAME},
    {"revoke unshare withdraw", "remove", NEAR},
    {"stop", "remove delete cancel", NEAR},
    {"unsubscribe", "cancel subscription", NEAR | AS_VERB},
    {"invalidate void annul", NULL, SAME},

    /* to let, to start */
    {"share grant give invite", NULL, NEAR},
    {"run trigger execute start dispatch", NULL, SAME},
    {"launch rerun kick", "run start", SAME},
    {"join enter", NULL, NEAR},
    {"vote poll survey ballot questionnaire", NULL, SAME},
    {"decline reject refuse", NULL, SAME},
    {"accept confirm", NULL, NEAR},
    {"unsent unfinished", "draft", SAME},

    /* money */
    {"refund reimburse repay", NULL, SAME},
    {"overcharge overpay", "refund", SAME},
    {"bill", "invoice", SAME},
    {"charge", "payment invoice", NEAR},
    {"owe overdue outstanding due unpaid debt", "unpaid invoice", NEAR},
    {"late", "overdue due", NEAR},
    {"pay payment charge purchase transaction", NULL, NEAR},
    {"money cash funds balance", NULL, NEAR},
    {"earn revenue income", "payment balance", NEAR},
    {"price cost fee", NULL, SAME},
    {"buyer purchaser", "customer", SAME},
    {"shopper patron payer", "customer", NEAR},
    {"receipt instalment installment", "payment invoice", NEAR | AS_NOUN},
    {"turnover takings payout", "payment balance", NEAR},
    {"settle", "pay close", NEAR | AS_VERB},
    {"membership plan subscription", NULL, NEAR},
    {"sum total balance", NULL, NEAR},

    /* what it is done to: messages */
    {"mail email message", NULL, SAME},
    {"inbox mailbox", "message mail", NEAR},
    {"conversation thread discussion", NULL, SAME},
    {"attachment attached pdf", NULL, NEAR},
    {"sms whatsapp", "message text sms", SAME},
    {"channel room", NULL, SAME},
    {"everyone everybody team", "channel post message", NEAR},
    {"newsletter campaign mailing", "template contact", NEAR},
    {"newsletter letter spam correspondence", "mail message", NEAR | AS_NOUN},
    {"subscriber reader recipient audience", "contact list", NEAR},
    {"undeliverable undelivered unreachable", "bounce", SAME},
    {"click performance metric kpi", "statistics delivery", NEAR | AS_NOUN},
    {"announcement news greeting reminder", "message", NEAR | AS_NOUN},
    {"caller phone", "call", NEAR},

    /* files */
    {"folder directory", NULL, SAME},
    {"folder", "label", NEAR},
    {"file document doc", NULL, SAME | AS_NOUN},
    {"deck slides presentation contract agreement scan paper report brochure pdf", "file document",
     NEAR | AS_NOUN},
    {"permission access", NULL, SAME},
    {"rights privilege clearance collaborator viewer editor", "permission access", NEAR | AS_NOUN},
    {"public", "share anyone", SAME},
    {"version revision", NULL, SAME},
    {"url link", NULL, SAME},
    {"photo picture image screenshot pic selfie snapshot", NULL, SAME},
    {"photo picture image screenshot logo icon video recording flyer", "file", NEAR | AS_NOUN},
    {"location place whereabouts venue", NULL, NEAR | AS_NOUN},

    /* time */
    {"event meeting appointment", NULL, SAME},
    {"call sync interview lunch dinner breakfast coffee standup session dentist party kickoff "
     "workshop webinar retro offsite briefing demo huddle townhall catchup",
     "event meeting", NEAR | AS_NOUN},
    {"calendar agenda diary", NULL, SAME},
    {"schedule timetable itinerary", "event calendar", NEAR | AS_NOUN},
    {"gathering meetup webcast conference", "event meeting", NEAR | AS_NOUN},
    {"agenda", "event calendar", SAME},
    {"invitation invite", "event invite", NEAR},
    {"free available availability busy slot", NULL, SAME},
    {"recurring repeating recurrence series", NULL, SAME},
    {"occurrence instance", NULL, SAME},
    {"guest attendee participant", NULL, SAME},
    {"attend", "attendee guest", NEAR},
    {"monday tuesday wednesday thursday friday saturday sunday tomorrow noon tonight hour oclock",
     "event calendar", NEAR},

    /* tables */
    {"spreadsheet workbook excel", NULL, SAME},
    {"tab worksheet sheet", NULL, SAME},
    {"cell value", NULL, SAME},
    {"row line record entry", NULL, SAME | AS_NOUN},
    {"page note", NULL, SAME | AS_NOUN},
    {"memo", "note page", NEAR | AS_NOUN},
    {"row record entry task", "page", NEAR},
    {"table database", NULL, SAME},
    {"column field property schema", NULL, SAME},
    {"lane swimlane", "list column", SAME},
    {"paragraph text content block body", NULL, NEAR},
    {"wiki", "page", NEAR},

    /* work */
    {"todo checkbox", "block task", NEAR},
    {"todo chore errand reminder", "task", SAME},
    {"card task", NULL, NEAR},
    {"task issue ticket", NULL, SAME},
    {"bug defect crash", "issue ticket", SAME},
    {"complaint case complain", "ticket", SAME},
    {"enquiry inquiry grievance helpdesk", "ticket", NEAR},
    {"backlog sprint epic story", "issue task", NEAR | AS_NOUN},
    {"patch hotfix changeset", "pull merge commit", NEAR | AS_NOUN},
    {"request", "ticket issue", NEAR | AS_NOUN},
    {"repository repo", NULL, SAME},
    {"pr prs mr", "pull merge request", SAME},
    {"pull merge", NULL, NEAR},
    {"build ci pipeline workflow", NULL, NEAR},
    {"deploy deployment", "run workflow pipeline", NEAR},
    {"readme config source", "file code", NEAR},
    {"comment feedback remark", NULL, SAME},

    /* people */
    {"user person people member", NULL, SAME},
    {"colleague teammate coworker", "user people member", NEAR},
    {"whoami", "profile self me", SAME},
    {"account profile", NULL, SAME},
    {"customer client contact", NULL, NEAR},
    {"prospect lead", "contact company lead", NEAR},
    {"company firm business employer organization organisation", NULL, SAME},
    {"opportunity", "deal", NEAR},
    {"team crew squad group", NULL, NEAR},
    {"moderator admin administrator role", NULL, NEAR},
};

const size_t search_synonyms_count = sizeof(search_synonyms) / sizeof(*search_synonyms);

const struct search_implied search_implied[] = {
    {"comment note review draft bill invoice ticket charge", "create"},
    {"email mail message dm text sms", "send"},
    {"tell notify ping remind warn ask nudge brief announce", "message"},
    {"call phone ring dial", "make"},
    {"thank apologize congratulate greet wish contact assure inform", "email"},
    {"label tag star flag", "modify"},
};

const size_t search_implied_count = sizeof(search_implied) / sizeof(*search_implied);
