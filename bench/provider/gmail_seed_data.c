/*
 * The seeded mails, newest first. gmail_seed.h says which tests and examples rely on which.
 */
#include "provider/gmail_seed.h"

#define ANNA     "Anna Keller <anna.keller@example.com>"
#define BEN      "Ben Okafor <ben@example.org>"
#define BILLING  "Northwind Billing <billing@northwind.example>"
#define MIRA     "Mira Santos <mira.santos@example.com>"
#define HR       "People Team <people@example.com>"
#define CI       "Build Bot <ci@builds.example.com>"
#define SHOP     "Papeterie Lumière <bonjour@lumiere.example>"
#define LIST     "Postgres Weekly <news@pgweekly.example>"
#define BANK     "Harbour Bank <no-reply@harbourbank.example>"
#define TRAVEL   "Railways <tickets@railways.example>"
#define SOCIAL   "Hiking Club <notify@clubs.example>"
#define SECURITY "Accounts <no-reply@accounts.example.com>"

const struct gmail_seed_mail gmail_seed_mails[] = {
    {1, 0, SEED_INBOX | SEED_UNREAD | SEED_IMPORTANT | SEED_HTML, ANNA, NULL,
     "Draft agenda for Thursday",
     "Hi Sam,\n\nhere is what I have for Thursday:\n1. numbers of October\n2. hiring\n3. the "
     "offsite\n\nPlease send me your points by Wednesday noon.\n\nAnna",
     NULL},
    {3, 0, SEED_INBOX | SEED_UNREAD, MIRA, NULL, "Can you review the contract?",
     "Hello Sam,\n\nlegal sent the contract with Fabrikam back. Could you review section 4 "
     "(liability) and tell me by Friday whether we can sign?\n\nThanks\nMira",
     NULL},
    {6, 0, SEED_INBOX | SEED_UNREAD | SEED_UPDATES | SEED_PDF | SEED_HTML, BILLING, NULL,
     "Invoice INV-4217 for November",
     "Dear customer,\n\nplease find attached invoice INV-4217 over 1,249.00 EUR, due in 14 "
     "days.\n\nNorthwind Billing",
     "invoice-INV-4217.pdf"},
    {30, 0, SEED_INBOX | SEED_IMPORTANT, ANNA, NULL, "Offsite in March",
     "Hi all,\n\nI would like to book the house at the lake for the offsite, 10 to 12 March. Does "
     "that work for everyone? I need a yes or no by Friday.\n\nAnna",
     NULL},
    {9, 0, SEED_INBOX | SEED_UNREAD, BEN, NULL, "Broken link in the handbook",
     "Sam, the link to the travel policy in chapter 3 leads nowhere. Could you mend it or tell me "
     "who can?\n\nBen",
     NULL},
    {12, 0, SEED_INBOX | SEED_UNREAD | SEED_UPDATES, CI, NULL, "[main] build 8841 failed",
     "Build 8841 of main failed after 6 minutes.\n\n2 tests failed:\n  payments/refund_test\n  "
     "payments/rounding_test\n\nLast change: mira.santos \"round half to even\"",
     NULL},
    {14, 0, SEED_INBOX | SEED_UNREAD | SEED_UPDATES | SEED_HTML, TRAVEL, NULL,
     "Your ticket to Hamburg, 3 December",
     "Your booking QX7K2M is confirmed.\n\nThursday, 3 December\n07:12 Berlin Hbf - 09:05 Hamburg "
     "Hbf, coach 12, seat 45\n\nHave a good journey.",
     NULL},
    {20, 4, SEED_INBOX | SEED_UNREAD, BEN,
     "Anna Keller <anna.keller@example.com>, team@example.com", "Re: Offsite in March",
     "Works for me. Can we have one evening without an agenda?\n\nBen\n\n> I would like to book "
     "the house at the lake",
     NULL},
    {26, 4, SEED_INBOX, MIRA, "Anna Keller <anna.keller@example.com>, team@example.com",
     "Re: Offsite in March", "Yes from me, I arrive on the evening of the 10th.\n\nMira", NULL},
    {24, 0, SEED_SENT, NULL, "Mira Santos <mira.santos@example.com>", "Slides for the board",
     "Mira,\n\nthe slides are in the shared folder. Numbers on page 7 are final.\n\nSam", NULL},
    {27, 0, SEED_INBOX | SEED_UNREAD | SEED_PROMOTIONS | SEED_HTML_ONLY, SHOP, NULL,
     "20 % off notebooks this week",
     "Dear friend of paper,\n\nthis week all notebooks are 20 % cheaper. Use the code "
     "AUTOMNE20.\n\nPapeterie Lumière",
     NULL},
    {33, 0, SEED_INBOX | SEED_STARRED | SEED_IMPORTANT, MIRA, NULL,
     "Launch checklist, please confirm your part",
     "Sam,\n\nfor the launch on the 8th you own: status page text, rollback test, on-call rota. "
     "Please confirm each in the list.\n\nMira",
     NULL},
    {36, 0, SEED_INBOX | SEED_UNREAD | SEED_FORUMS, LIST, NULL, "Postgres Weekly, issue 531",
     "In this issue:\n- how HOT updates work\n- a look at pipeline mode in libpq\n- partition "
     "pruning at run time\n\nRead online at https://pgweekly.example/531",
     NULL},
    {40, 15, SEED_SENT, NULL, BEN, "Re: Budget for the second half",
     "Ben,\n\napproved, go ahead with both licences.\n\nSam", NULL},
    {44, 0, SEED_INBOX, BEN, NULL, "Budget for the second half",
     "Sam, I need two more licences of the design tool, 38 EUR a month each. Fine with "
     "you?\n\nBen",
     NULL},
    {49, 0, SEED_INBOX | SEED_UPDATES | SEED_LABEL | SEED_PDF, BILLING, NULL,
     "Receipt for your payment of INV-4180",
     "We have received your payment of 1,249.00 EUR for invoice INV-4180. The receipt is "
     "attached.\n\nNorthwind Billing",
     "receipt-INV-4180.pdf"},
    {52, 0, SEED_INBOX | SEED_UNREAD | SEED_SOCIAL | SEED_HTML, SOCIAL, NULL,
     "Saturday: ridge walk, 14 people are going",
     "The ridge walk on Saturday starts at 9:00 at the station. 14 people are going, 3 places are "
     "left.",
     NULL},
    {55, 0, SEED_INBOX | SEED_CSV, ANNA, NULL, "October numbers",
     "Sam,\n\nhere are the October payments as exported. Could you check the three that look "
     "doubled?\n\nAnna",
     "october-payments.csv"},
    {54, 18, SEED_SENT, NULL, ANNA, "Re: October numbers",
     "Anna, two are doubled, the third is a partial refund. I have marked them.\n\nSam", NULL},
    {63, 0, SEED_INBOX | SEED_UPDATES, SECURITY, NULL, "New sign-in from Firefox on Linux",
     "We noticed a new sign-in to your account from Firefox on Linux in Berlin. If this was you, "
     "there is nothing to do.",
     NULL},
    {70, 0, SEED_INBOX | SEED_UNREAD | SEED_IMPORTANT, HR, NULL,
     "Reminder: feedback round closes on Monday",
     "Dear Sam,\n\nyou have two open feedback requests (Ben Okafor, Mira Santos). The round "
     "closes on Monday at 18:00.\n\nPeople Team",
     NULL},
    {75, 0, SEED_SENT, NULL, "support@fabrikam.example", "Delivery of the monitors",
     "Hello,\n\nthe monitors of order 77120 have not arrived. When can we expect them?\n\nSam "
     "Rivera",
     NULL},
    {74, 22, SEED_INBOX | SEED_UPDATES, "Fabrikam Support <support@fabrikam.example>", NULL,
     "Re: Delivery of the monitors",
     "Dear Sam,\n\nthey left our warehouse today and should reach you within two days. Tracking: "
     "FB-99120-DE.\n\nFabrikam Support",
     NULL},
    {80, 0, SEED_INBOX | SEED_PROMOTIONS | SEED_HTML_ONLY,
     "Kaffeerösterei <post@roesterei.example>", NULL, "Neue Ernte aus Äthiopien",
     "Die neue Ernte ist da: fruchtig, hell geröstet, 250 g für 12,50 "
     "€.",
     NULL},
    {84, 0, SEED_INBOX | SEED_IMAGE, BEN, NULL, "Whiteboard from yesterday",
     "The photo of the whiteboard, before somebody wipes it.\n\nBen", "whiteboard.png"},
    {90, 0, SEED_INBOX, MIRA, NULL, "Interview on Tuesday at 14:00",
     "Sam,\n\ncan you take the technical part with the second candidate? CV is in the "
     "folder.\n\nMira",
     NULL},
    {88, 26, SEED_SENT, NULL, MIRA, "Re: Interview on Tuesday at 14:00",
     "Yes, I take it. I will bring the exercise with the queue.\n\nSam", NULL},
    {99, 0, SEED_INBOX | SEED_UPDATES, CI, NULL, "[main] build 8790 passed again",
     "Build 8790 of main passed. Broken since 8786.", NULL},
    {110, 0, SEED_INBOX | SEED_UPDATES | SEED_HTML, BANK, NULL, "Your statement is ready",
     "Your statement for October can be downloaded in the online bank.", NULL},
    {118, 0, SEED_INBOX | SEED_UNREAD, "Lena Vogt <lena.vogt@partner.example>", NULL,
     "Question about the API limits",
     "Hello Sam,\n\nour import runs into 429 after some 40 requests. Which rate may we use, and "
     "do you send Retry-After?\n\nBest regards\nLena Vogt",
     NULL},
    {121, 0, SEED_SENT, NULL, HR, "Vacation 22 to 31 December",
     "Hello,\n\nI would like to take 22 to 31 December off.\n\nSam", NULL},
    {119, 31, SEED_INBOX, HR, NULL, "Re: Vacation 22 to 31 December",
     "Dear Sam,\n\napproved. Enjoy the days.\n\nPeople Team", NULL},
    {130, 0, SEED_INBOX | SEED_FORUMS, LIST, NULL, "Postgres Weekly, issue 530",
     "In this issue:\n- advisory locks\n- what fillfactor does\n\nRead online at "
     "https://pgweekly.example/530",
     NULL},
    {140, 0, SEED_INBOX, ANNA, NULL, "Lunch on Friday?",
     "The new place at the canal has a table at 12:30. Are you in?\n\nAnna", NULL},
    {139, 34, SEED_SENT, NULL, ANNA, "Re: Lunch on Friday?", "Gladly, see you there.\n\nSam", NULL},
    {150, 0, SEED_INBOX | SEED_STARRED, BEN, NULL, "Notes from the user visits",
     "Three things came up in all five visits: search is too strict, nobody finds the export, "
     "and approvals should work from the phone.\n\nBen",
     NULL},
    {160, 0, SEED_INBOX | SEED_UPDATES | SEED_LABEL | SEED_HTML, TRAVEL, NULL,
     "Receipt for booking PL3M9C", "Receipt: Berlin - Leipzig, 29.90 EUR, paid by card.", NULL},
    {170, 0, SEED_INBOX | SEED_SOCIAL, SOCIAL, NULL, "New photos: autumn at the lake",
     "12 new photos were added to \"autumn at the lake\".", NULL},
    {185, 0, SEED_INBOX | SEED_UNREAD, MIRA, NULL, "Access for the new contractor",
     "Sam,\n\nPriya starts on Monday and needs read access to the staging logs. Who grants "
     "that?\n\nMira",
     NULL},
    {200, 0, SEED_INBOX, "Tomáš Novák <tomas@novak.example>", NULL, "Nabídka překladů",
     "Dobrý den,\n\nv příloze posílám "
     "ceník.\n\nTomáš Novák",
     NULL},
    {215, 0, SEED_INBOX | SEED_UPDATES, CI, NULL, "[release] 3.14.0 was published",
     "Release 3.14.0 was published to production by mira.santos.", NULL},
    {230, 0, SEED_INBOX | SEED_IMPORTANT, ANNA, NULL, "Numbers for the board",
     "Sam,\n\nI need revenue by region for Q3 on one page, until Tuesday.\n\nAnna", NULL},
    {229, 42, SEED_SENT, NULL, ANNA, "Re: Numbers for the board",
     "Anna, done, it is page 7 of the slides.\n\nSam", NULL},
    {260, 0, SEED_INBOX | SEED_PROMOTIONS | SEED_HTML, "Cloud Days <hello@clouddays.example>", NULL,
     "Early bird tickets end tonight",
     "Only today: conference tickets for 299 EUR instead of 449 EUR.", NULL},
    {280, 0, SEED_INBOX | SEED_UPDATES | SEED_LABEL | SEED_PDF, BILLING, NULL,
     "Invoice INV-4180 for October",
     "Dear customer,\n\nplease find attached invoice INV-4180 over 1,249.00 EUR.\n\nNorthwind "
     "Billing",
     "invoice-INV-4180.pdf"},
    {300, 0, SEED_INBOX, BEN, NULL, "Names for the meeting rooms",
     "Vote until Thursday: lakes or mountains?\n\nBen", NULL},
    {320, 0, SEED_INBOX | SEED_FORUMS, LIST, NULL, "Postgres Weekly, issue 529",
     "In this issue:\n- logical replication slots\n- vacuum, again", NULL},
    {350, 0, SEED_SENT, NULL, "Lena Vogt <lena.vogt@partner.example>", "Keys for the test system",
     "Hello Lena,\n\nyour key for the test system was sent by post. It is valid until "
     "March.\n\nSam Rivera",
     NULL},
    {380, 0, SEED_INBOX | SEED_UPDATES, SECURITY, NULL, "Your password was changed",
     "The password of your account was changed. If this was not you, contact us.", NULL},
    {400, 0, SEED_INBOX, MIRA, NULL, "Post-mortem of the outage on the 3rd",
     "Cause: a certificate that expired at noon. Action items are in the document; two are "
     "yours.\n\nMira",
     NULL},
    {430, 0, SEED_INBOX | SEED_STARRED, ANNA, NULL, "Thank you",
     "The release went out without a single page at night. Thank you all.\n\nAnna", NULL},
    {470, 0, SEED_INBOX | SEED_SOCIAL, SOCIAL, NULL, "Your membership was renewed",
     "Your membership runs until next November.", NULL},
    {520, 0, SEED_INBOX, "Dr. Elif Demir <praxis@demir.example>", NULL, "Appointment on 2 December",
     "Your appointment: 2 December, 08:20. Please bring your card.", NULL},
    {580, 0, SEED_INBOX | SEED_UPDATES | SEED_HTML, BANK, NULL, "New terms from January",
     "Our terms change on 1 January. You find them in your mailbox.", NULL},
    {640, 0, SEED_INBOX | SEED_UNREAD, BEN, NULL, "Old laptops",
     "We have four old laptops. Sell, donate or keep as spares?\n\nBen", NULL},
    {700, 0, SEED_INBOX | SEED_PROMOTIONS | SEED_HTML_ONLY, SHOP, NULL, "Last call for calendars",
     "Calendars for the new year, while they last.", NULL},
    {760, 0, SEED_INBOX, "Old Newsletter <news@old.example>", NULL, "We are closing down",
     "After ten years this newsletter ends. Thank you for reading.", NULL},
    {48, 0, SEED_SPAM | SEED_UNREAD | SEED_HTML_ONLY, "Prize Office <winner@prizes.example>", NULL,
     "You have won", "Claim your prize within 24 hours.", NULL},
    {60, 0, SEED_SPAM | SEED_UNREAD, "Crypto Expert <profit@coins.example>", NULL,
     "Double your savings", "Guaranteed profit, no risk.", NULL},
    {100, 0, SEED_TRASH, "Parking <info@parking.example>", NULL, "Your parking ticket",
     "Your ticket from Monday, 2.40 EUR.", NULL},
    {5, 5, SEED_DRAFT, NULL, BEN, "Re: Broken link in the handbook",
     "Ben, I have mended it. Thanks for telling me.\n\nSam", NULL},
    {47, 30, SEED_DRAFT, NULL, "Lena Vogt <lena.vogt@partner.example>",
     "Re: Question about the API limits", "Hello Lena,\n\n", NULL},
};

const size_t gmail_seed_count = sizeof(gmail_seed_mails) / sizeof(gmail_seed_mails[0]);
